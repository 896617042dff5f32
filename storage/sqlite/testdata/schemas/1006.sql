-- Ids are 16 bytes, times are unix microseconds, and what is absent is NULL.
-- Every key starts with the tenant, but for the one of vault_lookups, which is asked
-- before the tenant is known.

-- The migrations that have run. All rows have the same vault_id, by which one
-- database is told from another, and by which this table is known as the vault's.
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

CREATE TABLE vault_token_hashes (
	tenant_id BLOB NOT NULL,
	hash      BLOB NOT NULL,
	ord       BLOB NOT NULL,
	PRIMARY KEY (tenant_id, hash, ord)
) STRICT, WITHOUT ROWID;

-- How many tokens there are, by set and type. There is one writer at a time, so
-- one shard is enough.
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

-- The key leads to the entries of one type in their order. A list of all types
-- merges those that vault_log_counts knows, which saves an index over all of them.
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
	PRIMARY KEY (tenant_id, entity_type, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX vault_logs_entity ON vault_logs (tenant_id, entity_id, id);

-- How many entries there are, by type and day of created_at, and between which
-- ids those are.
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

-- What a sweep finds dead jobs by.
CREATE INDEX vault_jobs_dead ON vault_jobs (run_at) WHERE dead;

-- What the planner would not guess: an entity has few entries, a tenant has many.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
	('vault_logs', 'vault_logs', '1000000 100000 20000 1'),
	('vault_logs', 'vault_logs_entity', '1000000 100000 10 1');
ANALYZE sqlite_schema; -- makes this connection read them
-- Followers read the log in the order of commits: seq rises from one transaction of
-- a tenant to the next. Entries from before have 0, and come first.
INSERT INTO vault_migrations (version, vault_id) SELECT 1002, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_logs ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
CREATE INDEX vault_logs_seq ON vault_logs (tenant_id, seq, id);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('vault_logs', 'vault_logs_seq', '1000000 100000 10 1');
ANALYZE sqlite_schema; -- makes this connection read it
-- Lists of the log by what happens seldom. Most entries say that something was
-- created, read or used: these are not in the index, so they cost nothing more.
INSERT INTO vault_migrations (version, vault_id) SELECT 1003, vault_id FROM vault_migrations WHERE version = 1001;

CREATE INDEX vault_logs_operation ON vault_logs (tenant_id, operation, entity_type, id) WHERE operation NOT IN ('create', 'read', 'use');

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('vault_logs', 'vault_logs_operation', '10000 10000 2000 400 1');
ANALYZE sqlite_schema; -- makes this connection read it

-- Rows of this version: a token with two hashes, what counts it, its log entry, a
-- record with its key, a claim and a job.
INSERT INTO vault_tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, body, created_at, rev)
VALUES (x'01000000000000000000000000000000', x'018bcfe5680070008000000000000001', 'kept', 'token', x'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', '/a/', x'6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', x'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', x'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2', 1, x'b0b1', 1700000000000000, 1);
INSERT INTO vault_token_hashes (tenant_id, hash, ord) VALUES (x'01000000000000000000000000000000', x'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1', x'018bcfe5680070008000000000000001'), (x'01000000000000000000000000000000', x'a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2', x'018bcfe5680070008000000000000001');
INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) VALUES (x'01000000000000000000000000000000', x'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', 'token', 0, 1);
INSERT INTO vault_container_sets (tenant_id, set_id, containers) VALUES (x'01000000000000000000000000000000', x'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', '/a/');
INSERT INTO vault_logs (tenant_id, id, created_at, actor_type, entity_type, entity_id, operation, message)
VALUES (x'01000000000000000000000000000000', x'018bcfe5680070008000000000000001', 1700000000000000, 'user', 'token', 'kept', 'create', 'Token created');
INSERT INTO vault_records (tenant_id, kind, id, name, name_fold, key_hash, key_version, body, created_at, rev)
VALUES (x'01000000000000000000000000000000', 'application', x'018bcfe5680070008000000000000001', 'Kept', 'kept', x'6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', 1, x'b0b1', 1700000000000000, 1);
INSERT INTO vault_lookups (hash, tenant_id, kind, id) VALUES (x'6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', x'01000000000000000000000000000000', 'application', x'018bcfe5680070008000000000000001');
INSERT INTO vault_claims (tenant_id, key, owner, expires_at, key_version, answer) VALUES (x'01000000000000000000000000000000', x'6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', x'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', 1900000000000000, 1, x'b0b1');
INSERT INTO vault_jobs (tenant_id, id, kind, run_at, attempts, dead, key_version, payload) VALUES (x'01000000000000000000000000000000', x'018bcfe5680070008000000000000001', 'react', 1700000000000000, 0, 0, 1, x'b0b1');
INSERT INTO vault_log_counts (tenant_id, entity_type, day, n, first_id, last_id) VALUES (x'01000000000000000000000000000000', 'token', 19675, 1, x'018bcfe5680070008000000000000001', x'018bcfe5680070008000000000000001');
-- The Merkle trees over the log. The vault's own tree is under the tenant of 16 zeros.
INSERT INTO vault_migrations (version, vault_id) SELECT 1004, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_logs ADD COLUMN origin TEXT;
ALTER TABLE vault_logs ADD COLUMN mac BLOB; -- 16 bytes, NULL in entries of earlier versions and in erased ones

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
	body      BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, n)
) STRICT, WITHOUT ROWID;

-- Signed notes over the vault's tree.
CREATE TABLE vault_log_checkpoints (
	tenant_id BLOB    NOT NULL,
	size      INTEGER NOT NULL,
	note      BLOB    NOT NULL,
	at        INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, size)
) STRICT, WITHOUT ROWID;
-- The index for lists of rare log entries, with a faster condition. NOT IN with
-- three values builds a temporary table whenever an entry is inserted, which took
-- 3 % of the CPU time of a read.
INSERT INTO vault_migrations (version, vault_id) SELECT 1005, vault_id FROM vault_migrations WHERE version = 1001;

DROP INDEX vault_logs_operation;
CREATE INDEX vault_logs_rare ON vault_logs (tenant_id, operation, entity_type, id)
	WHERE operation <> 'create' AND operation <> 'read' AND operation <> 'use';

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('vault_logs', 'vault_logs_rare', '10000 10000 2000 400 1');
ANALYZE sqlite_schema; -- loads the statistics into this connection
-- Events of the vault's tree by the tenant they are about, 16 zeros for the whole vault.
INSERT INTO vault_migrations (version, vault_id) SELECT 1006, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_log_events ADD COLUMN about BLOB NOT NULL DEFAULT x'00000000000000000000000000000000';
UPDATE vault_log_events SET about = unhex(CAST(body AS TEXT) ->> '$.tenant', '-') WHERE CAST(body AS TEXT) ->> '$.tenant' IS NOT NULL;
CREATE INDEX vault_log_events_about ON vault_log_events (tenant_id, about, n);
