-- The index for lists of rare log entries, with a faster condition. NOT IN with
-- three values builds a temporary table whenever an entry is inserted, which took
-- 3 % of the CPU time of a read.
INSERT INTO vault_migrations (version, vault_id) SELECT 1005, vault_id FROM vault_migrations WHERE version = 1001;

DROP INDEX vault_logs_operation;
CREATE INDEX vault_logs_rare ON vault_logs (tenant_id, operation, entity_type, id)
	WHERE operation <> 'create' AND operation <> 'read' AND operation <> 'use';

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('vault_logs', 'vault_logs_rare', '10000 10000 2000 400 1');
ANALYZE sqlite_schema; -- loads the statistics into this connection
