-- name: owner_add
-- A reborn owner keeps the number of the newest start: it is no start of a gateway.
INSERT INTO owners (id, kind, start_number, started_at, lease_until)
VALUES (:id, :kind,
        coalesce((SELECT start_number FROM owners ORDER BY number DESC LIMIT 1), 0) + :is_start,
        :now, :lease_until)
ON CONFLICT (id) DO NOTHING;

-- name: newest_start
SELECT coalesce((SELECT start_number FROM owners ORDER BY number DESC LIMIT 1), 0);

-- name: owner_renew
UPDATE owners SET lease_until = :lease_until WHERE id = :id AND gone_at IS NULL AND lease_until > :now;

-- name: owner_alive
SELECT 1 FROM owners WHERE id = ?1 AND gone_at IS NULL AND lease_until > ?2;

-- name: owner_retire
UPDATE owners SET gone_at = :now WHERE id = :id AND gone_at IS NULL;

-- name: turn_adopt
-- A run that is still going in a reborn process is no interruption: paying twice helps nobody.
UPDATE turns SET owner = :heir WHERE id = :turn AND owner = :owner AND state = 'running';

-- name: owners_bury
-- The lock on the home proves every other daemon dead at once; a library owner is known by its lease.
UPDATE owners SET gone_at = :now
WHERE gone_at IS NULL AND id <> :taker
  AND (lease_until <= :now OR (:lock_held AND kind = 'daemon'));

-- name: owners_forget
-- The newest owner stays: it carries the number of the newest start.
DELETE FROM owners
WHERE gone_at < :before AND number < (SELECT max(number) FROM owners)
  AND id NOT IN (SELECT owner FROM deliveries WHERE state = 'attempting')
  AND id NOT IN (SELECT owner FROM turns INDEXED BY turns_open
                 WHERE state IN ('waiting', 'running') AND state = 'running');

-- name: claimed_by_the_gone
SELECT d.id FROM deliveries d INDEXED BY deliveries_claimed JOIN owners o ON o.id = d.owner
WHERE d.state = 'attempting' AND o.gone_at IS NOT NULL ORDER BY d.seq;

-- name: running_by_the_gone
SELECT t.id, t.fence, t.interruptions, t.profile, t.platform, t.chat, t.thread,
       (SELECT reply_to FROM inbound i WHERE i.turn = t.id ORDER BY i.id LIMIT 1)
FROM turns t INDEXED BY turns_open JOIN owners o ON o.id = t.owner
WHERE t.state IN ('waiting', 'running') AND t.state = 'running' AND o.gone_at IS NOT NULL ORDER BY t.seq;

-- name: owner_started_after
-- Whether the taker started after this attempt began: then its gateway restarted. Counted, not
-- timed, so that a stepped clock tells no lies.
SELECT start_number > :attempt_start FROM owners WHERE id = :taker;

-- name: rested_and_released
SELECT d.id FROM deliveries d INDEXED BY deliveries_due
WHERE d.state IN ('pending', 'failed') AND d.state = 'failed' AND d.due_at IS NULL AND d.parked = 0
  AND (SELECT start FROM attempts a WHERE a.delivery = d.id ORDER BY number DESC LIMIT 1) < :start;

-- name: release_rested
UPDATE deliveries SET due_at = :due_at, due_set_at = :steady, version = version + 1
WHERE id = :id AND state = 'failed' AND due_at IS NULL AND parked = 0;

-- name: restamp_due
-- The clock was stepped back: a stored wait never lasts longer than it was long.
UPDATE deliveries SET due_at = :steady + (due_at - due_set_at), due_set_at = :steady, version = version + 1
WHERE state IN ('pending', 'failed') AND due_at > :steady AND due_set_at > :steady + 1000;

-- name: restamp_leases
-- Likewise no lease: a library owner that died before the step must not hold its rows for hours.
UPDATE owners SET lease_until = :now + :lease_ms WHERE gone_at IS NULL AND lease_until > :now + :lease_ms;

-- name: restamp_waits
UPDATE waits SET until = :steady + (until - set_at), set_at = :steady
WHERE until > :steady AND set_at > :steady + 1000;

-- name: restamp_written
UPDATE deliveries SET written_at = :wall, version = version + 1
WHERE state IN ('pending', 'failed') AND written_at > :wall + 1000;
