-- Every task that was registered or asked for.
SELECT name FROM anarchon_task WHERE namespace = :namespace ORDER BY name;
