-- name: pulse_beat
-- Daemons alone: who embeds the library has no home that could remember.
UPDATE pulse SET beats = beats + 1
WHERE EXISTS (SELECT 1 FROM owners WHERE id = ?1 AND kind = 'daemon');

-- name: pulse_read
SELECT store, beats FROM pulse;

-- name: pulse_continue
-- The store goes on where the home's note says that its life had come to.
UPDATE pulse SET store = :store, beats = max(beats, :beats) + 1;

-- name: park_owed
UPDATE deliveries SET parked = 1, due_at = NULL, version = version + 1
WHERE state IN ('pending', 'failed') AND parked = 0;

-- name: park_owners
-- Nobody works on a copy yet; whoever was at work on the original does so there.
UPDATE owners SET gone_at = :now WHERE gone_at IS NULL;

-- name: park_open_turns
SELECT t.id, t.state, t.fence, t.kind, t.profile, t.platform, t.chat, t.thread,
       (SELECT reply_to FROM inbound i WHERE i.turn = t.id ORDER BY i.id LIMIT 1)
FROM turns t INDEXED BY turns_open WHERE t.state IN ('waiting', 'running') ORDER BY t.seq;

-- name: parked_ids
SELECT id FROM deliveries WHERE parked AND state IN ('pending', 'failed') ORDER BY seq;

-- name: release_parked
UPDATE deliveries SET parked = 0, inherited_doubt = 1, due_at = :steady, due_set_at = :steady,
       released = (SELECT coalesce(max(a.number), 0) + 1 FROM attempts a WHERE a.delivery = deliveries.id),
       version = version + 1
WHERE id = :id AND parked AND state IN ('pending', 'failed');
