-- A task becomes known.
INSERT INTO anarchon_task (
    namespace, name, schedule, handler, jitter_ms, max_late_ms, timeout_ms, overlap, max_attempts, history_size,
    history_ttl_ms, late_claim_ms, catch_up_ms, floor_ms
)
VALUES (
    :namespace, :name, :schedule, :handler, :jitter_ms, :max_late_ms, :timeout_ms, :overlap, :max_attempts,
    :history_size, :history_ttl_ms, :late_claim_ms, :catch_up_ms, :floor_ms
);
