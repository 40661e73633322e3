-- The names of the tasks of which something may have to be trimmed.
SELECT name
FROM anarchon_task
WHERE namespace = :namespace
  AND (finals > history_size OR closings > :skips_kept OR (history_ttl_ms IS NOT NULL AND finals + closings > 0))
ORDER BY name;
