-- An instance says that it is alive. No row changed: it was forgotten meanwhile, and arrives again.
UPDATE anarchon_instance
SET lease_ms = :lease_ms, seen_at_ms = :now_ms
WHERE namespace = :namespace AND instance_id = :instance_id;
