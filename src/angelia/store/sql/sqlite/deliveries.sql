-- name: delivery_add
INSERT INTO deliveries (id, turn, origin, profile, platform, chat, thread, reply_to, state,
                        due_at, due_set_at, written_at, requested)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'pending', ?9, ?9, ?10, ?11)
ON CONFLICT DO NOTHING;

-- name: delivery_add_usual
-- The same in one statement, if nothing is known against the chat (moved, unreachable). It answers
-- what the record needs besides: number, newest start, whether a rate limit has to be looked at.
INSERT INTO deliveries (id, turn, origin, profile, platform, chat, thread, reply_to, state,
                        due_at, due_set_at, written_at, requested)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'pending', ?9, ?9, ?10, ?11
WHERE NOT EXISTS (SELECT 1 FROM chats c WHERE c.profile = ?4 AND c.platform = ?5 AND c.chat = ?6)
ON CONFLICT DO NOTHING
RETURNING seq, (SELECT start_number FROM owners ORDER BY number DESC LIMIT 1),
          EXISTS (SELECT 1 FROM waits w WHERE w.profile = ?4 AND w.platform = ?5);

-- name: part_add
INSERT INTO parts (delivery, number, position, parent, text, attachment) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: chat_state
SELECT unreachable_at IS NOT NULL, moved_to FROM chats WHERE profile = ?1 AND platform = ?2 AND chat = ?3;

-- name: delivery_claim
-- The compare-and-swap that stamps the owner also moves the row to attempting, whatever its state
-- before; an older owed row of the lane that does not rest goes first. The lease is checked in the
-- same breath; ?8 says that the adapter's rate limits have been looked at, else there must be none.
UPDATE deliveries SET state = 'attempting', owner = ?2, fence = fence + 1, due_at = NULL
WHERE id = ?1 AND state = ?3 AND fence = ?4 AND version = ?5 AND parked = 0
  AND EXISTS (SELECT 1 FROM owners o WHERE o.id = ?2 AND o.gone_at IS NULL AND o.lease_until > ?6)
  AND (due_at IS NULL OR due_at <= ?7)
  AND (?8 OR NOT EXISTS (SELECT 1 FROM waits w
                         WHERE w.profile = deliveries.profile AND w.platform = deliveries.platform))
  AND NOT EXISTS (
        SELECT 1 FROM deliveries e
        WHERE e.profile = deliveries.profile AND e.platform = deliveries.platform
          AND e.chat = deliveries.chat AND e.thread = deliveries.thread AND e.seq < deliveries.seq
          AND e.state IN ('pending', 'attempting', 'failed')
          AND (e.state = 'attempting' OR e.due_at IS NOT NULL));

-- name: delivery_key
SELECT state, owner, fence, version, tries, profile, platform, chat, thread FROM deliveries WHERE id = ?1;

-- name: delivery_left
-- What a pass left behind: the fence is still the pass's own until the next claim.
SELECT state, due_at FROM deliveries WHERE id = ?1 AND fence = ?2 AND owner IS NULL;

-- name: delivery_settled
SELECT state, reason FROM deliveries WHERE id = ?1 AND fence = ?2 AND version = ?3;

-- name: delivery_deferred
SELECT state, due_at FROM deliveries WHERE id = ?1 AND fence = ?2 AND version = ?3;

-- name: waits_of_adapter
SELECT scope, subject, until FROM waits WHERE profile = ?1 AND platform = ?2;

-- name: busy_in_scope
-- After a shared rate limit rows go one at a time, oldest first, until one is accepted. The index of
-- owed rows is named, because the planner would rather read a conversation's whole history.
SELECT 1 FROM deliveries INDEXED BY deliveries_owed
WHERE profile = :profile AND platform = :platform AND (:chat IS NULL OR chat = :chat) AND id <> :id
  AND state IN ('pending', 'attempting', 'failed')
  AND (state = 'attempting'
       OR (seq < :seq AND due_at <= :steady AND written_at > :fresh AND tries < 3
           -- Lanes do not wait for each other: a row that waits in its own lane holds nobody else.
           AND NOT EXISTS (SELECT 1 FROM deliveries e INDEXED BY deliveries_owed
                           WHERE e.profile = deliveries.profile AND e.platform = deliveries.platform
                             AND e.chat = deliveries.chat AND e.thread = deliveries.thread
                             AND e.seq < deliveries.seq AND e.state IN ('pending', 'attempting', 'failed')
                             AND e.state <> 'attempting' AND e.due_at > :steady)
           AND NOT EXISTS (SELECT 1 FROM waits w
                           WHERE w.profile = :profile AND w.platform = :platform AND w.scope = 'chat'
                             AND w.subject = deliveries.chat AND w.until > :steady)))
LIMIT 1;

-- name: revision_add
INSERT INTO revisions (delivery, part, number, role, text, format, target, marker, doubt)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (delivery, part, number) DO NOTHING;

-- name: attempt_add
INSERT INTO attempts (delivery, number, part, revision, fence, owner, start, started_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, (SELECT start_number FROM owners ORDER BY number DESC LIMIT 1), ?7);

-- name: attempt_known
SELECT owner, fence, ending, ended_at FROM attempts WHERE delivery = ?1 AND number = ?2;

-- name: attempt_end
UPDATE attempts SET ended_at = ?3, ending = ?4, detail = ?5
WHERE delivery = ?1 AND number = ?2 AND ending IS NULL;

-- name: attempt_remove
-- The call turned out to be no attempt: no byte left.
DELETE FROM attempts WHERE delivery = ?1 AND number = ?2 AND ending IS NULL;

-- name: attempt_received
UPDATE attempts SET ending = 'accepted', ended_at = coalesce(ended_at, :now)
WHERE delivery = :delivery AND number = :number;

-- name: part_received
UPDATE parts SET receipt = ?3 WHERE delivery = ?1 AND number = ?2 AND receipt IS NULL;

-- name: part_received_below
-- A part that was split arrived whole after all: so did everything that it was split into.
WITH RECURSIVE below (number) AS (
    SELECT number FROM parts WHERE delivery = :delivery AND parent = :part
    UNION SELECT p.number FROM parts p JOIN below b ON p.parent = b.number WHERE p.delivery = :delivery)
UPDATE parts SET receipt = :receipt
WHERE delivery = :delivery AND receipt IS NULL AND number IN (SELECT number FROM below);

-- name: part_received_above
-- It arrived whole after all, and its receipt came before it was split.
UPDATE parts SET receipt = (SELECT p.receipt FROM parts p WHERE p.delivery = ?1 AND p.number = ?2)
WHERE delivery = ?1 AND parent = ?2 AND receipt IS NULL;

-- name: part_replaced
UPDATE parts SET replaced = 1 WHERE delivery = ?1 AND number = ?2;

-- name: parts_missing
SELECT count(*) FROM parts WHERE delivery = ?1 AND replaced = 0 AND receipt IS NULL;

-- name: delivery_goes_on
UPDATE deliveries SET not_sent = 0, moves = moves + ?4, rerouted = max(rerouted, ?5),
       anchor_dropped = max(anchor_dropped, ?6)
WHERE id = ?1 AND state = 'attempting' AND owner = ?2 AND fence = ?3;

-- name: delivery_done
UPDATE deliveries SET state = 'delivered', owner = NULL, due_at = NULL, ended_at = ?4
WHERE id = ?1 AND state = 'attempting' AND owner = ?2 AND fence = ?3
RETURNING profile, platform, chat, EXISTS (
    SELECT 1 FROM waits w WHERE w.profile = deliveries.profile AND w.platform = deliveries.platform);

-- name: delivery_pass_over
UPDATE deliveries SET state = :state, reason = :reason, owner = NULL, due_at = :due_at, due_set_at = :steady,
       tries = :tries, not_sent = :not_sent, moves = moves + :moved, rerouted = max(rerouted, :rerouted),
       anchor_dropped = max(anchor_dropped, :anchor_dropped), ended_at = :ended_at, version = version + 1
WHERE id = :id AND state = 'attempting' AND owner = :owner AND fence = :fence;

-- name: delivery_settle
UPDATE deliveries SET state = :to_state, reason = :reason, due_at = NULL, ended_at = :now, version = version + 1
WHERE id = :id AND state = :state AND fence = :fence AND version = :version;

-- name: delivery_complete_late
UPDATE deliveries SET state = 'delivered', due_at = NULL, ended_at = :now, version = version + 1
WHERE id = :id AND state = 'failed';

-- name: delivery_touch
-- Whoever planned on the record as it was shall look again.
UPDATE deliveries SET version = version + 1 WHERE id = ?1 AND state IN ('pending', 'failed');

-- name: delivery_defer
-- Never earlier than it was. A wait for something else than a connection is none that one ends. A rate
-- limit that was stored by a gateway whose steady clock is ahead of ours lasts as long as it was long.
UPDATE deliveries SET
       due_at = coalesce((SELECT max(:steady + w.until - w.set_at) FROM waits w
                          WHERE w.profile = deliveries.profile AND w.platform = deliveries.platform
                            AND w.until = :due_at AND w.set_at > :steady + 1000), :due_at),
       due_set_at = :steady, version = version + 1,
       not_sent = CASE WHEN :offline THEN not_sent + 1 ELSE 0 END
WHERE id = :id AND state = :state AND fence = :fence AND version = :version
  AND ((:due_at IS NULL AND state = 'failed') OR due_at IS NULL OR :due_at >= due_at);

-- name: look_up_noted
UPDATE attempts SET absent = max(absent, :absent), looked_up_fence = :fence
WHERE delivery = :delivery AND number = :number;

-- name: chat_unreachable
-- Somebody who wrote after the attempt began has revived the chat before its outcome is stored.
INSERT INTO chats (profile, platform, chat, unreachable_at, detail)
SELECT :profile, :platform, :chat, :at, :detail
WHERE NOT EXISTS (SELECT 1 FROM inbound i
                  WHERE i.profile = :profile AND i.platform = :platform AND i.chat = :chat
                    AND coalesce(i.sent_at, i.first_seen_at) > :at)
ON CONFLICT (profile, platform, chat)
DO UPDATE SET unreachable_at = max(coalesce(unreachable_at, 0), excluded.unreachable_at), detail = excluded.detail;

-- name: chat_abandon
UPDATE deliveries SET state = 'abandoned', reason = 'unreachable', due_at = NULL, ended_at = :now, version = version + 1
WHERE profile = :profile AND platform = :platform AND chat = :chat AND state IN ('pending', 'failed');

-- name: chat_moved
INSERT INTO chats (profile, platform, chat, moved_to) VALUES (:profile, :platform, :chat, :moved_to)
ON CONFLICT (profile, platform, chat) DO UPDATE SET moved_to = excluded.moved_to;

-- name: chat_not_moved
-- A chat that others move to exists: an older move away from it no longer counts.
UPDATE chats SET moved_to = NULL WHERE profile = :profile AND platform = :platform AND chat = :moved_to;

-- name: chat_readdress
-- An address that changed is a changed revision, also for rows that did not hit the move
-- themselves: a key of the old chat proves nothing in the new one.
UPDATE deliveries SET chat = :moved_to, moves = moves + (id <> :id), version = version + 1
WHERE profile = :profile AND platform = :platform AND chat = :chat
  AND (state IN ('pending', 'failed') OR id = :id);

-- name: wait_set
INSERT INTO waits (profile, platform, scope, subject, set_at, until)
VALUES (:profile, :platform, :scope, :subject, :steady, :until)
ON CONFLICT (profile, platform, scope, subject)
DO UPDATE SET set_at = excluded.set_at,
              until = max(excluded.until, CASE WHEN set_at > excluded.set_at + 1000
                                               THEN excluded.set_at + until - set_at ELSE until END);

-- name: waits_proved
-- One was accepted: the limits that had run out are over.
DELETE FROM waits WHERE profile = ?1 AND platform = ?2 AND until <= ?4
  AND (scope <> 'chat' OR subject = ?3);

-- name: deliveries_connected
UPDATE deliveries INDEXED BY deliveries_due SET due_at = :steady, due_set_at = :steady, version = version + 1
WHERE profile = :profile AND platform = :platform AND (:chat IS NULL OR chat = :chat)
  AND state IN ('pending', 'failed') AND not_sent > 0 AND due_at > :steady;

-- name: prune_attempts
DELETE FROM attempts WHERE delivery IN
    (SELECT id FROM deliveries WHERE state IN ('delivered', 'abandoned') AND ended_at < :before);

-- name: prune_revisions
DELETE FROM revisions WHERE delivery IN
    (SELECT id FROM deliveries WHERE state IN ('delivered', 'abandoned') AND ended_at < :before);

-- name: prune_parts
DELETE FROM parts WHERE delivery IN
    (SELECT id FROM deliveries WHERE state IN ('delivered', 'abandoned') AND ended_at < :before);

-- name: prune_deliveries
DELETE FROM deliveries WHERE state IN ('delivered', 'abandoned') AND ended_at < :before;

-- name: prune_waits
DELETE FROM waits WHERE until < :steady - 604800000;

-- name: delivery_sent_unprotected
UPDATE deliveries SET state = :state, reason = :reason, due_at = :due_at, due_set_at = :steady,
       ended_at = :ended_at, fence = 1, unprotected = 1, tries = :tries, not_sent = :not_sent,
       moves = :moves, rerouted = :rerouted, anchor_dropped = :anchor_dropped, version = version + 1
WHERE id = :id AND state = 'pending';
