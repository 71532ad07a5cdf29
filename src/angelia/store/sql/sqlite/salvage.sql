-- name: mend_owners
-- With the number of the newest start that anything tells of, for the newest owner carries it.
INSERT INTO owners (id, kind, start_number, started_at, lease_until, gone_at)
SELECT o.id, 'daemon',
       max(coalesce((SELECT max(start_number) FROM owners), 0), coalesce((SELECT max(start) FROM attempts), 0)),
       0, 0, 0
FROM (SELECT owner AS id FROM deliveries WHERE state = 'attempting'
      UNION SELECT owner FROM turns WHERE state = 'running') o
WHERE o.id NOT IN (SELECT id FROM owners);

-- name: mend_revisions
INSERT INTO revisions (delivery, part, number, role, text, format, target, marker, doubt)
SELECT DISTINCT a.delivery, a.part, a.revision, 'content', NULL, 'markdown', 0, 0, 0 FROM attempts a
WHERE NOT EXISTS (SELECT 1 FROM revisions r
                  WHERE r.delivery = a.delivery AND r.part = a.part AND r.number = a.revision);

-- name: mend_turns
-- An inbound without its turn would count as acknowledged and forgotten.
INSERT INTO turns (id, profile, platform, chat, thread, kind, state, reason, received_at, ended_at)
SELECT i.turn, i.profile, i.platform, i.chat, i.thread, 'message', 'gave_up', 'lost', i.first_seen_at,
       i.first_seen_at
FROM inbound i WHERE i.turn NOT IN (SELECT id FROM turns) GROUP BY i.turn;

-- name: mend_runs
UPDATE model_runs SET ended_at = started_at, ending = 'interrupted'
WHERE ending IS NULL AND turn NOT IN (SELECT id FROM turns WHERE state = 'running');

-- name: mend_missing_parts
-- Parts are numbered from 1 without gaps; only a gap, or no part at all, can be seen.
SELECT d.id, CASE WHEN NOT EXISTS (SELECT 1 FROM parts p WHERE p.delivery = d.id AND p.number = 1) THEN 1
             ELSE (SELECT min(p.number) + 1 FROM parts p WHERE p.delivery = d.id
                   AND NOT EXISTS (SELECT 1 FROM parts n WHERE n.delivery = d.id AND n.number = p.number + 1)) END
FROM deliveries d
WHERE d.state IN ('pending', 'attempting', 'failed')
  AND (SELECT count(*) FROM parts p WHERE p.delivery = d.id)
      <> coalesce((SELECT max(number) FROM parts p WHERE p.delivery = d.id), -1);

-- name: mend_lost_deliveries
SELECT delivery, group_concat(text, ' ') FROM parts
WHERE delivery NOT IN (SELECT id FROM deliveries) GROUP BY delivery;

-- name: mend_orphan_parts
DELETE FROM parts WHERE delivery NOT IN (SELECT id FROM deliveries);

-- name: mend_orphan_revisions
DELETE FROM revisions WHERE delivery NOT IN (SELECT id FROM deliveries);

-- name: mend_orphan_attempts
DELETE FROM attempts WHERE delivery NOT IN (SELECT id FROM deliveries);
