-- name: delivery_load
SELECT d.id, d.seq, d.profile, d.platform, d.chat, d.thread, d.reply_to, d.state, d.written_at,
       d.fence, d.version, d.due_at, d.tries, d.not_sent, d.moves, d.rerouted, d.anchor_dropped,
       d.requested, d.inherited_doubt, d.owner, d.reason, d.origin, d.turn,
       EXISTS (SELECT 1 FROM chats c WHERE c.profile = d.profile AND c.platform = d.platform
                 AND c.chat = d.chat AND c.unreachable_at IS NOT NULL),
       d.parked, d.released
FROM deliveries d WHERE d.id = ?1;

-- name: parts_load
SELECT number, position, text, parent, replaced, receipt, attachment FROM parts WHERE delivery = ?1 ORDER BY position, number;

-- name: revisions_load
SELECT part, number, role, text, format, target, marker, doubt FROM revisions WHERE delivery = ?1
ORDER BY part, number;

-- name: attempts_load
SELECT number, part, revision, fence, started_at, start, ended_at, ending, detail, absent, looked_up_fence
FROM attempts WHERE delivery = ?1 ORDER BY number;

-- name: delivery_overtaken
-- A later reply of the conversation has been on the wire before this one arrived.
SELECT EXISTS (
    SELECT 1 FROM deliveries d
    WHERE d.profile = ?1 AND d.platform = ?2 AND d.chat = ?3 AND d.thread = ?4 AND d.seq > ?5
      AND EXISTS (SELECT 1 FROM attempts a WHERE a.delivery = d.id));

-- name: lane_head
-- Only a row that rests or is parked may be overtaken; an attempting one holds its lane.
SELECT id, state FROM deliveries
WHERE profile = ?1 AND platform = ?2 AND chat = ?3 AND thread = ?4
  AND state IN ('pending', 'attempting', 'failed') AND (state = 'attempting' OR due_at IS NOT NULL)
ORDER BY seq LIMIT 1;

-- name: lanes_due
-- Only rows that lead their lane: what waits behind another must not use up the limit.
SELECT profile, platform, chat, thread FROM deliveries INDEXED BY deliveries_due
WHERE state IN ('pending', 'failed') AND due_at <= :steady AND profile = :profile AND platform = :platform
  AND NOT EXISTS (
        SELECT 1 FROM deliveries e
        WHERE e.profile = deliveries.profile AND e.platform = deliveries.platform
          AND e.chat = deliveries.chat AND e.thread = deliveries.thread AND e.seq < deliveries.seq
          AND e.state IN ('pending', 'attempting', 'failed')
          AND (e.state = 'attempting' OR e.due_at IS NOT NULL))
ORDER BY seq LIMIT :limit;

-- name: files_named
-- What must stay in the spool.
SELECT attachment FROM parts WHERE attachment IS NOT NULL
UNION SELECT attachments FROM inbound WHERE attachments IS NOT NULL;

-- name: owed_stale
-- Rows whose adapter is away, or whose wait is longer than their life, grow stale like any other.
SELECT id FROM deliveries WHERE state IN ('pending', 'failed') AND written_at <= :before LIMIT :limit;

-- name: history_turns
-- What was sent in pieces is one line, under the id of its first piece.
SELECT t.seq, t.id, t.state, t.reason,
       (SELECT group_concat(e.text, char(10) ORDER BY e.id) FROM inbound e WHERE e.turn = t.id),
       i.first_seen_at, i.message_id, i.thread
FROM turns t JOIN inbound i ON i.id = (SELECT min(e.id) FROM inbound e WHERE e.turn = t.id)
WHERE t.profile = ?1 AND t.platform = ?2 AND t.chat = ?3 ORDER BY t.seq DESC LIMIT ?4;

-- name: history_deliveries
SELECT d.id, d.state, d.reason, d.written_at,
       EXISTS (SELECT 1 FROM revisions r JOIN attempts a ON a.delivery = r.delivery AND a.part = r.part
                 AND a.revision = r.number
               WHERE r.delivery = d.id AND r.marker AND a.ending = 'accepted')
FROM deliveries d WHERE d.profile = ?1 AND d.platform = ?2 AND d.chat = ?3 ORDER BY d.seq DESC LIMIT ?4;

-- name: conversation_lines
SELECT (SELECT group_concat(e.text, char(10) ORDER BY e.id) FROM inbound e WHERE e.turn = t.id),
       i.first_seen_at, t.id, d.id, d.written_at
FROM turns t JOIN inbound i ON i.id = (SELECT min(e.id) FROM inbound e WHERE e.turn = t.id)
LEFT JOIN deliveries d ON d.turn = t.id
WHERE t.profile = :profile AND t.platform = :platform AND t.chat = :chat AND t.thread = :thread
  AND t.kind = 'message' AND t.state = 'answered' AND t.reason = ''
  AND t.seq < (SELECT seq FROM turns WHERE id = :before)
  AND t.seq > coalesce((SELECT since_turn FROM conversations c
                        WHERE c.profile = :profile AND c.platform = :platform
                          AND c.chat = :chat AND c.thread = :thread), 0)
ORDER BY t.seq DESC LIMIT :limit;

-- name: chats_of_adapter
SELECT t.chat, max(t.received_at) AS at,
       (SELECT i.text FROM inbound i WHERE i.profile = t.profile AND i.platform = t.platform AND i.chat = t.chat
        ORDER BY i.id LIMIT 1)
FROM turns t WHERE t.profile = ?1 AND t.platform = ?2 GROUP BY t.chat ORDER BY at DESC LIMIT ?3;

-- name: latest_answer
-- What a person may wonder about: answers and notices, but not what a command was answered.
SELECT id FROM deliveries d
WHERE profile = ?1 AND platform = ?2 AND chat = ?3 AND thread = ?4
  AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = d.turn AND t.kind = 'command')
ORDER BY seq DESC LIMIT 1;
