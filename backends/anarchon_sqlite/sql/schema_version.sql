-- The newest migration that was applied, and the oldest one that a release must know to work here.
SELECT version, compatible_with FROM anarchon_schema ORDER BY version DESC LIMIT 1;
