-- A later registration of a name replaces its rules.
UPDATE anarchon_task
SET schedule = :schedule, handler = :handler, jitter_ms = :jitter_ms, max_late_ms = :max_late_ms,
    timeout_ms = :timeout_ms, overlap = :overlap, max_attempts = :max_attempts, history_size = :history_size,
    history_ttl_ms = :history_ttl_ms, late_claim_ms = :late_claim_ms, catch_up_ms = :catch_up_ms
WHERE id = :id;
