-- A task becomes known.
INSERT INTO anarchon_task (namespace, name, schedule, history_size, history_ttl_ms, late_claim_ms, catch_up_ms, floor_ms)
VALUES (:namespace, :name, :schedule, :history_size, :history_ttl_ms, :late_claim_ms, :catch_up_ms, :floor_ms);
