-- The tasks of these names, as far as they are known.
SELECT id, name, schedule, handler, jitter_ms, max_late_ms, timeout_ms, overlap, max_attempts, history_size,
       history_ttl_ms, late_claim_ms, catch_up_ms, fence, floor_ms, finals, closings, excuses, pauses
FROM anarchon_task
WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:names));
