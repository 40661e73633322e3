-- The runs that wait for somebody: handed over (their lease ends at 0), or their lease has run out.
-- In the order in which the leases ended, from just after a given place. Of a paused task only those that somebody
-- asked for by hand and that no instance has had yet.
SELECT t.name, r.task_id, r.run_id, r.slot_ms, r.scheduled_at_ms, r.reason, r.status, r.instance_id, r.token, r.attempt,
       r.max_attempts, r.fence, r.lease_ends_at_ms, r.claimed_at_ms, r.started_at_ms, r.finished_at_ms, r.error,
       r.traceback, r.checkpoint, r.attempts
FROM anarchon_run AS r
CROSS JOIN anarchon_task AS t ON t.id = r.task_id
WHERE r.status IN ('running', 'handed-over')
  AND r.lease_ends_at_ms <= :now_ms
  AND r.lease_ends_at_ms >= :after_end
  AND t.namespace = :namespace
  AND (t.paused = 0 OR (r.reason = 'manual' AND r.attempts = '[]'))
  AND (r.lease_ends_at_ms, t.name, r.run_id) > (:after_end, :after_task, :after_run_id)
ORDER BY r.lease_ends_at_ms, t.name, r.run_id
LIMIT :limit;
