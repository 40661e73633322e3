-- Instances that were not heard of for very long.
DELETE FROM anarchon_instance WHERE namespace = :namespace AND seen_at_ms <= :gone_at_ms;
