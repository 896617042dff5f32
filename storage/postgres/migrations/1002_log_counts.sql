INSERT INTO vault_migrations (version, vault_id) SELECT 1002, vault_id FROM vault_migrations WHERE version = 1001;

-- How many log entries there are, by type and day of created_at: the sum over the
-- shards, as with vault_token_counts. A sweep folds the shards of past days into
-- shard 0, so that a total is the sum of few rows.
CREATE TABLE vault_log_counts (
	tenant_id   bytea  NOT NULL,
	entity_type text   COLLATE "C" NOT NULL,
	day         bigint NOT NULL, -- since 1970
	shard       bigint NOT NULL,
	n           bigint NOT NULL,
	PRIMARY KEY (tenant_id, entity_type, day, shard)
) WITH (fillfactor = 50);
CREATE INDEX vault_log_counts_apart ON vault_log_counts (tenant_id) WHERE shard < 0;
CREATE INDEX vault_log_counts_spread ON vault_log_counts (day) WHERE shard > 0;

-- Nothing is entered in the log between the count and the end of this migration.
LOCK TABLE vault_logs IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO vault_log_counts (tenant_id, entity_type, day, shard, n)
SELECT tenant_id, entity_type, created_at / 86400000000 - CASE WHEN created_at % 86400000000 < 0 THEN 1 ELSE 0 END, 0, count(*)
FROM vault_logs GROUP BY 1, 2, 3;
