-- Followers read the log in the order of commits. seq rises with each transaction
-- of a tenant. Older entries have 0 and come first.
INSERT INTO vault_migrations (version, vault_id) SELECT 1002, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_logs ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
CREATE INDEX vault_logs_seq ON vault_logs (tenant_id, seq, id);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('vault_logs', 'vault_logs_seq', '1000000 100000 10 1');
ANALYZE sqlite_schema; -- loads the statistics into this connection
