-- The runs of these slots; keys is a JSON array of [task_id, slot_ms]. No row for a slot: nobody has claimed it,
-- or its record was trimmed, which the floor of the task tells.
SELECT r.task_id, r.run_id, r.slot_ms, r.scheduled_at_ms, r.reason, r.status, r.instance_id, r.token, r.attempt,
       r.max_attempts, r.fence, r.lease_ends_at_ms, r.claimed_at_ms, r.started_at_ms, r.finished_at_ms, r.error,
       r.traceback, r.checkpoint, r.attempts
FROM json_each(:keys) AS k
CROSS JOIN anarchon_run AS r
    ON r.task_id = json_extract(k.value, '$[0]') AND r.slot_ms = json_extract(k.value, '$[1]');
