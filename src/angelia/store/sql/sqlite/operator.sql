-- name: delivery_mark
-- An operator's word in place of receipts; the reason keeps the two apart.
UPDATE deliveries SET state = 'delivered', reason = 'marked', due_at = NULL, ended_at = :now, version = version + 1
WHERE id = :id AND state = 'failed' AND version = :version;

-- name: again_add
UPDATE deliveries SET again_of = :of WHERE id = :id;

-- name: again_known
SELECT again_of FROM deliveries WHERE id = ?1;
