-- An index for lists of rare log entries. Most entries record that something was
-- created, read or used. The index leaves them out, so they cost nothing more.
INSERT INTO vault_migrations (version, vault_id) SELECT 1003, vault_id FROM vault_migrations WHERE version = 1001;

CREATE INDEX vault_logs_operation ON vault_logs (tenant_id, operation, entity_type, id) WHERE operation NOT IN ('create', 'read', 'use');

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('vault_logs', 'vault_logs_operation', '10000 10000 2000 400 1');
ANALYZE sqlite_schema; -- loads the statistics into this connection
