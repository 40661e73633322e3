-- Whether this file has any schema of anarchon. No row: it has none.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'anarchon_schema';
