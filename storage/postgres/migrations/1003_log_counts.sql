-- The number of log entries by type and day of created_at. A write does not update
-- these counts. A list counts the entries of transactions after the tenant's mark
-- itself. Later these entries are added here, many at a time. All entries without
-- a transaction number are counted here.
INSERT INTO vault_migrations (version, vault_id) SELECT 1003, vault_id FROM vault_migrations WHERE version = 1001;

CREATE TABLE vault_log_counts (
	tenant_id   bytea  NOT NULL,
	entity_type text   COLLATE "C" NOT NULL,
	day         bigint NOT NULL, -- since 1970
	n           bigint NOT NULL,
	PRIMARY KEY (tenant_id, entity_type, day)
) WITH (fillfactor = 50);

CREATE TABLE vault_log_marks (
	tenant_id bytea  NOT NULL PRIMARY KEY,
	xid       bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO vault_log_counts (tenant_id, entity_type, day, n)
SELECT tenant_id, entity_type, created_at / 86400000000 - CASE WHEN created_at % 86400000000 < 0 THEN 1 ELSE 0 END, count(*)
FROM vault_logs WHERE xid IS NULL GROUP BY 1, 2, 3;
