-- Each rule_… finds rows that must not exist; store/invariants.py says what they mean.

-- name: rule_inbound_without_turn
SELECT message_id, chat, turn FROM inbound i WHERE NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = i.turn);

-- name: rule_turn_without_inbound
SELECT id, state FROM turns t
WHERE state IN ('waiting', 'running') AND NOT EXISTS (SELECT 1 FROM inbound i WHERE i.turn = t.id);

-- name: rule_delivered_without_receipt
-- Unless an operator gave his word.
SELECT d.id, p.number FROM deliveries d JOIN parts p ON p.delivery = d.id
WHERE d.state = 'delivered' AND d.reason <> 'marked' AND p.replaced = 0 AND p.receipt IS NULL;

-- name: rule_delivery_without_parts
SELECT id FROM deliveries d
WHERE NOT EXISTS (SELECT 1 FROM parts p WHERE p.delivery = d.id AND p.replaced = 0);

-- name: rule_orphans
SELECT DISTINCT 'parts', delivery FROM parts WHERE delivery NOT IN (SELECT id FROM deliveries)
UNION ALL SELECT DISTINCT 'revisions', delivery FROM revisions WHERE delivery NOT IN (SELECT id FROM deliveries)
UNION ALL SELECT DISTINCT 'attempts', delivery FROM attempts WHERE delivery NOT IN (SELECT id FROM deliveries);

-- name: rule_attempt_without_revision
SELECT a.delivery, a.number FROM attempts a
WHERE NOT EXISTS (SELECT 1 FROM revisions r
                  WHERE r.delivery = a.delivery AND r.part = a.part AND r.number = a.revision);

-- name: rule_open_attempt_of_idle
SELECT d.id, d.state, a.number FROM attempts a JOIN deliveries d ON d.id = a.delivery
WHERE a.ending IS NULL AND d.state <> 'attempting';

-- name: rule_pending_with_attempts
SELECT id FROM deliveries d
WHERE state = 'pending' AND EXISTS (SELECT 1 FROM attempts a WHERE a.delivery = d.id);

-- name: rule_rest_without_attempt
SELECT id FROM deliveries d
WHERE state = 'failed' AND due_at IS NULL AND parked = 0 AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.delivery = d.id);

-- name: rule_attempt_beyond_fence
SELECT a.delivery, a.number, a.fence, d.fence FROM attempts a JOIN deliveries d ON d.id = a.delivery
WHERE a.fence > d.fence;

-- name: rule_fence_went_back
SELECT a.delivery, a.number FROM attempts a
WHERE EXISTS (SELECT 1 FROM attempts b WHERE b.delivery = a.delivery AND b.number < a.number AND b.fence > a.fence);

-- name: rule_claimed_by_nobody
-- Nobody would ever take such a row over.
SELECT 'delivery', id, owner FROM deliveries
WHERE state = 'attempting' AND owner NOT IN (SELECT id FROM owners)
UNION ALL
SELECT 'turn', id, owner FROM turns WHERE state = 'running' AND owner NOT IN (SELECT id FROM owners);

-- name: rule_sent_too_late
-- An attempt from the future was made before the clock was set back and says nothing.
SELECT a.delivery, a.number FROM attempts a JOIN deliveries d ON d.id = a.delivery
WHERE a.started_at > d.written_at + :life_ms + :slack_ms AND a.started_at <= :wall;

-- name: rule_wait_beyond_life
SELECT id FROM deliveries
WHERE state IN ('pending', 'failed') AND due_at - due_set_at > :life_ms + :slack_ms;

-- name: rule_lane_in_flight_twice
-- A chat that moves may bring a row in flight into a lane that has one.
SELECT profile, platform, chat, thread, count(*) FROM deliveries WHERE state = 'attempting'
GROUP BY profile, platform, chat, thread HAVING count(*) > 1 AND sum(moves) = 0;

-- name: rule_open_run_of_idle_turn
SELECT r.id, t.id, t.state FROM model_runs r JOIN turns t ON t.id = r.turn
WHERE r.ending IS NULL AND t.state <> 'running';

-- name: rule_running_turn_without_run
SELECT id, (SELECT count(*) FROM model_runs r WHERE r.turn = t.id AND r.ending IS NULL) AS open FROM turns t
WHERE state = 'running' AND open <> 1;

-- name: rule_answered_without_run
-- Books: model runs = answered turns + interruptions, drains and fallbacks on record.
SELECT id, (SELECT count(*) FROM model_runs r
            WHERE r.turn = t.id AND r.ending NOT IN ('interrupted', 'drained', 'fallback')) AS made
FROM turns t WHERE state = 'answered' AND kind = 'message' AND made <> 1;

-- name: rule_interruptions
SELECT id, interruptions, (SELECT count(*) FROM model_runs r
                           WHERE r.turn = t.id AND r.ending = 'interrupted') AS interrupted
FROM turns t WHERE interrupted <> interruptions + (state = 'gave_up' AND reason = 'interrupted twice')
  -- What an old copy had running was cut, and is not tried again; of a lost turn nobody counted.
  AND NOT (state = 'gave_up' AND reason = 'old copy' AND interrupted = interruptions + 1)
  AND NOT (state = 'gave_up' AND reason = 'lost');

-- name: rule_owed_of_open_turn
SELECT d.id, t.id, t.state FROM deliveries d JOIN turns t ON t.id = d.turn
WHERE t.state IN ('waiting', 'running');

-- name: tried_more_than_once
-- Where a row or a revision is missing, another rule has said so.
SELECT a.delivery FROM attempts a JOIN deliveries d ON d.id = a.delivery
LEFT JOIN revisions r ON r.delivery = a.delivery AND r.part = a.part AND r.number = a.revision
GROUP BY a.delivery HAVING count(*) > 1 AND count(*) = count(r.number);

-- name: every_delivery
SELECT id FROM deliveries ORDER BY seq;
