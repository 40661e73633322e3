-- A run was trimmed; the floor of its task rises in the same transaction.
DELETE FROM anarchon_run WHERE id = :id;
