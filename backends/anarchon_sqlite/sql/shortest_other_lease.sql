-- The shortest lease length of the other live instances; NULL: there is none.
SELECT min(lease_ms)
FROM anarchon_instance
WHERE namespace = :namespace AND instance_id <> :instance_id AND seen_at_ms > :alive_after_ms;
