-- An instance has gone.
DELETE FROM anarchon_instance WHERE namespace = :namespace AND instance_id = :instance_id;
