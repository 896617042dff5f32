-- Ids have 16 bytes, times are microseconds since 1970, and NULL means absent.
-- Every key starts with the tenant, except in vault_lookups, which is read before
-- the tenant is known.

-- The migrations that have run. All rows have the same vault_id. It identifies
-- the database, and shows that this table belongs to a vault.
CREATE TABLE vault_migrations (
	version  INTEGER NOT NULL PRIMARY KEY,
	vault_id BLOB    NOT NULL
) STRICT;
INSERT INTO vault_migrations (version, vault_id) VALUES (1001, randomblob(16));

CREATE TABLE vault_tokens (
	tenant_id      BLOB    NOT NULL,
	ord            BLOB    NOT NULL, -- UUIDv7: new rows go to the end of the tenant's
	id             TEXT    NOT NULL,
	type           TEXT    NOT NULL,
	set_id         BLOB    NOT NULL,
	containers     TEXT    NOT NULL, -- joined by commas
	expires_at     INTEGER,
	cvc_expires_at INTEGER,
	key_version    INTEGER NOT NULL,
	rev            INTEGER NOT NULL,
	created_by     BLOB,
	created_at     INTEGER NOT NULL,
	modified_by    BLOB,
	modified_at    INTEGER,
	fingerprint    BLOB    NOT NULL,
	expression     BLOB    NOT NULL,
	dedup          BLOB,
	hashes         BLOB    NOT NULL, -- the token's rows in vault_token_hashes, 16 bytes each
	cvc            BLOB,
	body           BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, ord),
	UNIQUE (tenant_id, id)
) STRICT;
CREATE UNIQUE INDEX vault_tokens_dedup ON vault_tokens (tenant_id, dedup) WHERE dedup IS NOT NULL;
CREATE INDEX vault_tokens_fingerprint ON vault_tokens (tenant_id, fingerprint, ord);
CREATE INDEX vault_tokens_set ON vault_tokens (tenant_id, set_id, type, ord);
CREATE INDEX vault_tokens_expiring ON vault_tokens (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX vault_tokens_tenant_expiring ON vault_tokens (tenant_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX vault_tokens_cvc_expiring ON vault_tokens (cvc_expires_at) WHERE cvc_expires_at IS NOT NULL;
-- The index for searches by modified_at. Tokens that were never modified are not in
-- it, so that it costs a create nothing.
CREATE INDEX vault_tokens_modified ON vault_tokens (tenant_id, modified_at, ord) WHERE modified_at IS NOT NULL;

CREATE TABLE vault_token_hashes (
	tenant_id BLOB NOT NULL,
	hash      BLOB NOT NULL,
	ord       BLOB NOT NULL,
	PRIMARY KEY (tenant_id, hash, ord)
) STRICT, WITHOUT ROWID;

-- The number of tokens by set and type. SQLite has one writer at a time, so one
-- shard is enough.
CREATE TABLE vault_token_counts (
	tenant_id BLOB    NOT NULL,
	set_id    BLOB    NOT NULL,
	type      TEXT    NOT NULL,
	shard     INTEGER NOT NULL DEFAULT 0,
	n         INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, set_id, type, shard)
) STRICT, WITHOUT ROWID;

CREATE TABLE vault_container_sets (
	tenant_id  BLOB NOT NULL,
	set_id     BLOB NOT NULL,
	containers TEXT NOT NULL,
	PRIMARY KEY (tenant_id, set_id)
) STRICT, WITHOUT ROWID;

-- The key orders the entries of one type. A list of all types merges the lists of
-- the types in vault_log_counts, which saves an index over all entries. Followers
-- read the log in the order of commits.
CREATE TABLE vault_logs (
	tenant_id   BLOB    NOT NULL,
	entity_type TEXT    NOT NULL,
	id          BLOB    NOT NULL,
	created_at  INTEGER NOT NULL,
	actor_id    BLOB,
	actor_type  TEXT    NOT NULL,
	entity_id   TEXT    NOT NULL,
	operation   TEXT    NOT NULL,
	message     TEXT    NOT NULL,
	actor_name  TEXT, -- what the embedding program calls a user that acted
	seq         INTEGER NOT NULL, -- rises with each transaction of the tenant
	origin      TEXT,
	mac         BLOB, -- 16 bytes, NULL in erased entries
	PRIMARY KEY (tenant_id, entity_type, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX vault_logs_entity ON vault_logs (tenant_id, entity_id, id);
CREATE INDEX vault_logs_seq ON vault_logs (tenant_id, seq, id);
-- An index for lists of rare log entries. Most entries record that something was
-- created, read or used. The index leaves them out, so they cost nothing more. NOT
-- IN with three values would build a temporary table for every entry.
CREATE INDEX vault_logs_rare ON vault_logs (tenant_id, operation, entity_type, id)
	WHERE operation <> 'create' AND operation <> 'read' AND operation <> 'use';

-- The number of log entries by type and day of created_at, with their first and
-- last id.
CREATE TABLE vault_log_counts (
	tenant_id   BLOB    NOT NULL,
	entity_type TEXT    NOT NULL,
	day         INTEGER NOT NULL, -- since 1970
	shard       INTEGER NOT NULL DEFAULT 0,
	n           INTEGER NOT NULL,
	first_id    BLOB    NOT NULL,
	last_id     BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, entity_type, day, shard)
) STRICT, WITHOUT ROWID;

-- The Merkle trees over the log. The vault's own tree is under the tenant of 16 zeros.
CREATE TABLE vault_log_trees (
	tenant_id BLOB    NOT NULL PRIMARY KEY,
	size      INTEGER NOT NULL,
	root      BLOB    NOT NULL,
	state     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- A batch of leaves, which lies between two multiples of 256.
CREATE TABLE vault_log_leaves (
	tenant_id BLOB    NOT NULL,
	first     INTEGER NOT NULL,
	kind      INTEGER NOT NULL,
	ids       BLOB    NOT NULL, -- of entries, 16 bytes each
	seqs      BLOB    NOT NULL, -- of entries, 8 bytes each
	hashes    BLOB    NOT NULL, -- commitments, 32 bytes each
	PRIMARY KEY (tenant_id, first)
) STRICT, WITHOUT ROWID;

-- Roots of complete subtrees.
CREATE TABLE vault_log_nodes (
	tenant_id BLOB    NOT NULL,
	level     INTEGER NOT NULL,
	n         INTEGER NOT NULL,
	hash      BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, level, n)
) STRICT, WITHOUT ROWID;

-- Contents of the leaves of the vault's tree.
CREATE TABLE vault_log_events (
	tenant_id BLOB    NOT NULL,
	n         INTEGER NOT NULL,
	about     BLOB    NOT NULL, -- the tenant of the event, 16 zeros for the whole vault
	body      BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX vault_log_events_about ON vault_log_events (tenant_id, about, n);

-- Signed notes over the vault's tree.
CREATE TABLE vault_log_checkpoints (
	tenant_id BLOB    NOT NULL,
	size      INTEGER NOT NULL,
	note      BLOB    NOT NULL,
	at        INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, size)
) STRICT, WITHOUT ROWID;

CREATE TABLE vault_records (
	tenant_id   BLOB    NOT NULL,
	kind        TEXT    NOT NULL,
	id          BLOB    NOT NULL,
	name        TEXT    NOT NULL,
	name_fold   TEXT    NOT NULL,
	key_hash    BLOB,
	alt_hash    BLOB,
	expires_at  INTEGER,
	key_version INTEGER NOT NULL,
	created_at  INTEGER,
	rev         INTEGER NOT NULL,
	body        BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, kind, id)
) STRICT;
CREATE INDEX vault_records_kind ON vault_records (kind, id, tenant_id);
CREATE INDEX vault_records_expiring ON vault_records (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE vault_lookups (
	hash      BLOB PRIMARY KEY,
	tenant_id BLOB NOT NULL,
	kind      TEXT NOT NULL,
	id        BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX vault_lookups_tenant ON vault_lookups (tenant_id);

CREATE TABLE vault_claims (
	tenant_id   BLOB    NOT NULL,
	key         BLOB    NOT NULL,
	owner       BLOB,
	lease_until INTEGER,
	expires_at  INTEGER,
	key_version INTEGER NOT NULL,
	answer      BLOB,
	PRIMARY KEY (tenant_id, key)
) STRICT;
CREATE INDEX vault_claims_expiring ON vault_claims (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE vault_jobs (
	tenant_id   BLOB    NOT NULL,
	id          BLOB    NOT NULL,
	kind        TEXT    NOT NULL,
	run_at      INTEGER NOT NULL,
	attempts    INTEGER NOT NULL,
	dead        INTEGER NOT NULL,
	owner       BLOB,
	lease_until INTEGER,
	key_version INTEGER NOT NULL,
	payload     BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, id)
) STRICT;
CREATE INDEX vault_jobs_due ON vault_jobs (tenant_id, run_at, lease_until) WHERE NOT dead;

-- A sweep uses this index to find dead jobs.
CREATE INDEX vault_jobs_dead ON vault_jobs (run_at) WHERE dead;

-- Statistics for the planner: an entity has few entries, a tenant has many.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
	('vault_logs', 'vault_logs', '1000000 100000 20000 1'),
	('vault_logs', 'vault_logs_entity', '1000000 100000 10 1'),
	('vault_logs', 'vault_logs_seq', '1000000 100000 10 1'),
	('vault_logs', 'vault_logs_rare', '10000 10000 2000 400 1');
ANALYZE sqlite_schema; -- loads the statistics into this connection
