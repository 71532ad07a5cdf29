-- name: view_deliveries
-- Newest first. An empty filter filters nothing.
SELECT d.id, d.state, d.reason, d.profile, d.platform, d.chat, d.thread, d.origin, d.tries,
       d.due_at, d.written_at, d.ended_at, d.turn, d.again_of, d.parked AND d.state IN ('pending', 'failed')
FROM deliveries d
WHERE (:state = '' OR d.state = :state) AND (:chat = '' OR d.chat = :chat) AND (:id = '' OR d.id = :id)
  AND (NOT :parked OR (d.parked AND d.state IN ('pending', 'failed')))
ORDER BY d.seq DESC LIMIT :limit;

-- name: view_parts
SELECT text, receipt, attachment FROM parts WHERE delivery = ?1 AND replaced = 0 ORDER BY position, number;

-- name: view_owners_of_attempts
SELECT number, owner, start FROM attempts WHERE delivery = ?1 ORDER BY number;

-- name: view_runs
SELECT id, model, owner, started_at, ended_at, ending, detail, input_tokens, output_tokens
FROM model_runs WHERE turn = ?1
ORDER BY rowid;

-- name: view_turn
SELECT id, kind, state, reason, received_at, ended_at, interruptions FROM turns WHERE id = ?1;

-- name: view_questions
SELECT message_id, user, user_name, text, sent_at, first_seen_at, attachments FROM inbound WHERE turn = ?1 ORDER BY id;

-- name: view_matches
-- Everything that a person may have copied from somewhere: an id of ours, or one of the platform's.
SELECT 'delivery' AS found, id AS delivery, turn, written_at AS at FROM deliveries WHERE id = :id
UNION ALL SELECT 'turn', NULL, id, received_at FROM turns WHERE id = :id
UNION ALL SELECT 'model run', NULL, turn, started_at FROM model_runs WHERE id = :id
UNION ALL SELECT 'inbound message', NULL, turn, first_seen_at FROM inbound WHERE message_id = :id
UNION ALL SELECT 'receipt', d.id, d.turn, d.written_at FROM parts p JOIN deliveries d ON d.id = p.delivery
          WHERE p.receipt = :id AND p.receipt <> ''
ORDER BY at DESC;

-- name: view_again_of
SELECT again_of, turn FROM deliveries WHERE id = ?1;

-- name: view_told
-- The delivery of a turn, or one without a turn, and everything that was sent again from it.
WITH RECURSIVE told (id) AS (
    SELECT id FROM deliveries WHERE id = :delivery OR turn = :turn
    UNION SELECT d.id FROM deliveries d JOIN told t ON d.again_of = t.id)
SELECT d.id FROM deliveries d JOIN told t ON t.id = d.id ORDER BY d.seq;

-- name: view_states
SELECT state, count(*) FROM deliveries GROUP BY state;

-- name: view_turn_states
SELECT state, count(*) FROM turns GROUP BY state;

-- name: view_owed
SELECT min(written_at), coalesce(sum(due_at <= :steady), 0),
       coalesce(sum(state = 'failed' AND due_at IS NULL AND NOT parked), 0), coalesce(sum(parked), 0)
FROM deliveries WHERE state IN ('pending', 'attempting', 'failed');

-- name: view_unreachable
SELECT profile, platform, chat, unreachable_at, detail FROM chats WHERE unreachable_at IS NOT NULL
ORDER BY profile, platform, chat;

-- name: view_waits
SELECT profile, platform, scope, subject, until FROM waits WHERE until > :steady ORDER BY until DESC;

-- name: view_owners
SELECT o.id, o.kind, o.started_at, o.lease_until,
       (SELECT count(*) FROM deliveries d WHERE d.owner = o.id AND d.state = 'attempting'),
       (SELECT count(*) FROM turns t WHERE t.owner = o.id AND t.state = 'running')
FROM owners o WHERE o.gone_at IS NULL ORDER BY o.number;

-- name: view_chats
WITH seen (profile, platform, chat, at) AS (
    SELECT profile, platform, chat, max(received_at) FROM turns GROUP BY profile, platform, chat
    UNION ALL SELECT profile, platform, chat, max(written_at) FROM deliveries GROUP BY profile, platform, chat
    UNION ALL SELECT profile, platform, chat, coalesce(unreachable_at, 0) FROM chats)
SELECT s.profile, s.platform, s.chat, max(s.at) AS newest,
       (SELECT count(*) FROM deliveries d WHERE d.profile = s.profile AND d.platform = s.platform
          AND d.chat = s.chat AND d.state IN ('pending', 'attempting', 'failed')),
       c.unreachable_at, coalesce(c.detail, ''), c.moved_to
FROM seen s LEFT JOIN chats c ON c.profile = s.profile AND c.platform = s.platform AND c.chat = s.chat
GROUP BY s.profile, s.platform, s.chat ORDER BY newest DESC LIMIT :limit;
