-- name: inbound_add
-- The duplicate check is this unique key, not a habit in Python.
INSERT INTO inbound (profile, platform, chat, message_id, thread, user, user_name, text, reply_to,
                     attachments, sent_at, first_seen_at, turn)
VALUES (:profile, :platform, :chat, :message_id, :thread, :user, :user_name, :text, :reply_to,
        :attachments, :sent_at, :now, :turn)
ON CONFLICT (profile, platform, chat, message_id) DO NOTHING;

-- name: inbound_turn
SELECT turn FROM inbound
WHERE profile = :profile AND platform = :platform AND chat = :chat AND message_id = :message_id;

-- name: inbound_edit
UPDATE inbound SET text = :text
WHERE profile = :profile AND platform = :platform AND chat = :chat AND message_id = :message_id
  AND EXISTS (SELECT 1 FROM turns t WHERE t.id = inbound.turn AND t.state = 'waiting');

-- name: turn_add
INSERT INTO turns (id, profile, platform, chat, thread, kind, state, received_at, burst, pieces_until)
VALUES (:turn, :profile, :platform, :chat, :thread, :kind, 'waiting', :now, :burst, :pieces_until);

-- name: turn_of_burst
-- The turn that further pieces of a burst join: it has not run yet.
SELECT t.id FROM turns t
WHERE t.profile = :profile AND t.platform = :platform AND t.chat = :chat AND t.thread = :thread
  AND t.state IN ('waiting', 'running') AND t.state = 'waiting' AND t.kind = 'message'
  AND t.burst = :burst AND t.interruptions = 0
  AND (SELECT count(*) FROM inbound i WHERE i.turn = t.id) < :pieces_max
ORDER BY t.seq DESC LIMIT 1;

-- name: turn_piece_came
UPDATE turns SET pieces_until = :pieces_until WHERE id = :turn;

-- name: chat_revive
-- An inbound that is newer than the start of the attempt that said so proves the chat reachable.
UPDATE chats SET unreachable_at = NULL, detail = ''
WHERE profile = :profile AND platform = :platform AND chat = :chat AND unreachable_at < :sent_at;

-- name: turns_waiting
SELECT t.id, t.profile, t.platform, t.chat, t.thread, t.kind FROM turns t INDEXED BY turns_open
WHERE t.state IN ('waiting', 'running') AND t.state = 'waiting'
  AND (t.pieces_until IS NULL OR t.pieces_until <= :steady OR t.pieces_until > :steady + 10000)
  AND (t.kind = 'command' OR NOT EXISTS (
        SELECT 1 FROM turns e
        WHERE e.profile = t.profile AND e.platform = t.platform AND e.chat = t.chat AND e.thread = t.thread
          AND e.state IN ('waiting', 'running') AND e.kind = 'message' AND e.seq < t.seq))
ORDER BY t.seq LIMIT :limit;

-- name: turn_start
-- Turns of a conversation run one at a time, in the order of arrival; what is too old starts nothing.
-- What the run needs to know comes back from the same statement.
UPDATE turns SET state = 'running', owner = :owner, fence = fence + 1
WHERE id = :turn AND state = 'waiting'
  -- Further pieces of a burst may come for 10 s at most, whatever happened to the clock.
  AND (pieces_until IS NULL OR pieces_until <= :steady OR pieces_until > :steady + 10000)
  AND EXISTS (SELECT 1 FROM owners o WHERE o.id = :owner AND o.gone_at IS NULL AND o.lease_until > :now)
  AND NOT EXISTS (
        SELECT 1 FROM turns e
        WHERE e.profile = turns.profile AND e.platform = turns.platform AND e.chat = turns.chat
          AND e.thread = turns.thread AND e.state IN ('waiting', 'running') AND e.kind = 'message'
          AND e.seq < turns.seq)
  AND (SELECT max(min(i.first_seen_at, coalesce(i.sent_at, i.first_seen_at)))
       FROM inbound i WHERE i.turn = turns.id) > :before
RETURNING profile, platform, chat, thread, kind, fence,
    (SELECT group_concat(i.text, char(10) ORDER BY i.id) FROM inbound i WHERE i.turn = turns.id),
    (SELECT i.user FROM inbound i WHERE i.turn = turns.id ORDER BY i.id LIMIT 1),
    (SELECT i.user_name FROM inbound i WHERE i.turn = turns.id ORDER BY i.id LIMIT 1),
    (SELECT i.reply_to FROM inbound i WHERE i.turn = turns.id ORDER BY i.id LIMIT 1),
    (SELECT group_concat(i.attachments, char(10) ORDER BY i.id) FROM inbound i WHERE i.turn = turns.id),
    coalesce((SELECT c.number FROM conversations c
              WHERE c.profile = turns.profile AND c.platform = turns.platform
                AND c.chat = turns.chat AND c.thread = turns.thread), 1);

-- name: turn_expire
-- An inbound older than 24 h, by the platform's own time where it gives one, starts nothing.
UPDATE turns SET state = 'gave_up', reason = 'expired', ended_at = :now
WHERE id = :turn AND state = 'waiting'
  AND (SELECT max(min(i.first_seen_at, coalesce(i.sent_at, i.first_seen_at)))
       FROM inbound i WHERE i.turn = turns.id) <= :before;

-- name: turns_expire
UPDATE turns SET state = 'gave_up', reason = 'expired', ended_at = :now
WHERE state = 'waiting' AND received_at <= :before;

-- name: turn_load
SELECT t.id, t.profile, t.platform, t.chat, t.thread, t.kind, t.state, t.fence, t.owner,
       i.text, i.user, i.user_name, i.reply_to, i.attachments,
       coalesce((SELECT c.number FROM conversations c
                 WHERE c.profile = t.profile AND c.platform = t.platform
                   AND c.chat = t.chat AND c.thread = t.thread), 1)
FROM turns t JOIN inbound i ON i.turn = t.id WHERE t.id = :turn ORDER BY i.id;

-- name: turn_end
UPDATE turns SET state = :state, reason = :reason, ended_at = :now, owner = NULL
WHERE id = :turn AND fence = :fence AND state = :expected;

-- name: turn_ended
SELECT t.state, (SELECT d.id FROM deliveries d WHERE d.turn = t.id) FROM turns t WHERE t.id = ?1 AND t.fence = ?2;

-- name: turn_wait_again
UPDATE turns SET state = 'waiting', owner = NULL, interruptions = interruptions + :interrupted
WHERE id = :turn AND fence = :fence AND state = 'running';

-- name: run_add
INSERT INTO model_runs (id, turn, owner, model, started_at) VALUES (:run, :turn, :owner, :model, :now)
ON CONFLICT (id) DO NOTHING;

-- name: run_end
UPDATE model_runs SET ended_at = :now, ending = :ending, detail = :detail,
       model = CASE WHEN :model <> '' THEN :model ELSE model END,
       input_tokens = :input_tokens, output_tokens = :output_tokens
WHERE id = :run AND ending IS NULL;

-- name: run_state
SELECT ending FROM model_runs WHERE id = ?1;

-- name: runs_interrupt
UPDATE model_runs SET ended_at = :now, ending = 'interrupted' WHERE turn = :turn AND ending IS NULL;

-- name: conversation_new
-- It begins with the command that said so; what was said right after it belongs to the new one.
INSERT INTO conversations (profile, platform, chat, thread, number, since_turn)
VALUES (:profile, :platform, :chat, :thread, 2,
        coalesce((SELECT seq FROM turns WHERE id = :turn), (SELECT max(seq) FROM turns), 0))
ON CONFLICT (profile, platform, chat, thread)
DO UPDATE SET number = number + 1, since_turn = max(since_turn, excluded.since_turn);

-- name: conversations_clamp
-- Numbers of pruned turns are used again: what comes now must not look older than the last "new".
UPDATE conversations SET since_turn = (SELECT coalesce(max(seq), 0) FROM turns)
WHERE since_turn > (SELECT coalesce(max(seq), 0) FROM turns);

-- name: prune_inbound
DELETE FROM inbound WHERE first_seen_at < :before
  AND turn NOT IN (SELECT id FROM turns WHERE state IN ('waiting', 'running'))
  AND turn NOT IN (SELECT turn FROM deliveries WHERE state IN ('pending', 'attempting', 'failed') AND turn IS NOT NULL);

-- name: prune_runs
DELETE FROM model_runs WHERE turn IN (
    SELECT t.id FROM turns t WHERE t.state IN ('answered', 'gave_up') AND t.ended_at < :before
      AND NOT EXISTS (SELECT 1 FROM inbound i WHERE i.turn = t.id)
      AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.turn = t.id));

-- name: prune_turns
DELETE FROM turns WHERE state IN ('answered', 'gave_up') AND ended_at < :before
  AND NOT EXISTS (SELECT 1 FROM inbound i WHERE i.turn = turns.id)
  AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.turn = turns.id);
