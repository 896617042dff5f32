CREATE TABLE schema_version (version bigint PRIMARY KEY);
-- Ids are 16 bytes, times are unix microseconds, and what is absent is NULL.
-- Every key starts with the tenant, except for the one of lookups, which is asked
-- before the tenant is known.

CREATE TABLE tokens (
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
	hashes         BLOB    NOT NULL, -- the token's rows in token_hashes, 16 bytes each
	cvc            BLOB,
	body           BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, ord),
	UNIQUE (tenant_id, id)
) STRICT;
CREATE UNIQUE INDEX tokens_dedup ON tokens (tenant_id, dedup) WHERE dedup IS NOT NULL;
CREATE INDEX tokens_fingerprint ON tokens (tenant_id, fingerprint, ord);
CREATE INDEX tokens_set ON tokens (tenant_id, set_id, type, ord);
CREATE INDEX tokens_expiring ON tokens (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX tokens_tenant_expiring ON tokens (tenant_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX tokens_cvc_expiring ON tokens (cvc_expires_at) WHERE cvc_expires_at IS NOT NULL;

CREATE TABLE token_hashes (
	tenant_id BLOB NOT NULL,
	hash      BLOB NOT NULL,
	ord       BLOB NOT NULL,
	PRIMARY KEY (tenant_id, hash, ord)
) STRICT, WITHOUT ROWID;

-- How many tokens there are, by set and type. There is one writer at a time, so
-- one shard is enough.
CREATE TABLE token_counts (
	tenant_id BLOB    NOT NULL,
	set_id    BLOB    NOT NULL,
	type      TEXT    NOT NULL,
	shard     INTEGER NOT NULL DEFAULT 0,
	n         INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, set_id, type, shard)
) STRICT, WITHOUT ROWID;

CREATE TABLE container_sets (
	tenant_id  BLOB NOT NULL,
	set_id     BLOB NOT NULL,
	containers TEXT NOT NULL,
	PRIMARY KEY (tenant_id, set_id)
) STRICT, WITHOUT ROWID;

-- The key leads to the entries of one type in their order. A list of all types
-- merges those that log_counts knows, which saves an index over all of them.
CREATE TABLE logs (
	tenant_id   BLOB    NOT NULL,
	entity_type TEXT    NOT NULL,
	id          BLOB    NOT NULL,
	created_at  INTEGER NOT NULL,
	actor_id    BLOB,
	actor_type  TEXT    NOT NULL,
	entity_id   TEXT    NOT NULL,
	operation   TEXT    NOT NULL,
	message     TEXT    NOT NULL,
	PRIMARY KEY (tenant_id, entity_type, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX logs_entity ON logs (tenant_id, entity_id, id);

-- How many entries there are, by type and day of created_at, and between which
-- ids those are.
CREATE TABLE log_counts (
	tenant_id   BLOB    NOT NULL,
	entity_type TEXT    NOT NULL,
	day         INTEGER NOT NULL, -- since 1970
	shard       INTEGER NOT NULL DEFAULT 0,
	n           INTEGER NOT NULL,
	first_id    BLOB    NOT NULL,
	last_id     BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, entity_type, day, shard)
) STRICT, WITHOUT ROWID;

CREATE TABLE records (
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
CREATE INDEX records_kind ON records (kind, id, tenant_id);
CREATE INDEX records_expiring ON records (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE lookups (
	hash      BLOB PRIMARY KEY,
	tenant_id BLOB NOT NULL,
	kind      TEXT NOT NULL,
	id        BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX lookups_tenant ON lookups (tenant_id);

CREATE TABLE claims (
	tenant_id   BLOB    NOT NULL,
	key         BLOB    NOT NULL,
	owner       BLOB,
	lease_until INTEGER,
	expires_at  INTEGER,
	key_version INTEGER NOT NULL,
	answer      BLOB,
	PRIMARY KEY (tenant_id, key)
) STRICT;
CREATE INDEX claims_expiring ON claims (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE jobs (
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
CREATE INDEX jobs_due ON jobs (tenant_id, run_at, lease_until) WHERE NOT dead;

-- What the planner would not guess: an entity has few entries, a tenant has many.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
	('logs', 'logs', '1000000 100000 20000 1'),
	('logs', 'logs_entity', '1000000 100000 10 1');
ANALYZE sqlite_schema; -- makes this connection read them
INSERT INTO schema_version (version) VALUES (1001);
-- What a sweep finds dead jobs by.
CREATE INDEX jobs_dead ON jobs (run_at) WHERE dead;
INSERT INTO schema_version (version) VALUES (1002);

-- Rows of this version: a token with two hashes, what counts it, its log entry, a
-- record with its key, a claim and a job.
INSERT INTO tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, body, created_at, rev)
VALUES (x'01000000000000000000000000000000', x'018bcfe5680070008000000000000001', 'kept', 'token', x'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', '/a/', x'6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', x'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', x'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2', 1, x'b0b1', 1700000000000000, 1);
INSERT INTO token_hashes (tenant_id, hash, ord) VALUES (x'01000000000000000000000000000000', x'a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1', x'018bcfe5680070008000000000000001'), (x'01000000000000000000000000000000', x'a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2', x'018bcfe5680070008000000000000001');
INSERT INTO token_counts (tenant_id, set_id, type, shard, n) VALUES (x'01000000000000000000000000000000', x'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', 'token', 0, 1);
INSERT INTO container_sets (tenant_id, set_id, containers) VALUES (x'01000000000000000000000000000000', x'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', '/a/');
INSERT INTO logs (tenant_id, id, created_at, actor_type, entity_type, entity_id, operation, message)
VALUES (x'01000000000000000000000000000000', x'018bcfe5680070008000000000000001', 1700000000000000, 'user', 'token', 'kept', 'create', 'Token created');
INSERT INTO records (tenant_id, kind, id, name, name_fold, key_hash, key_version, body, created_at, rev)
VALUES (x'01000000000000000000000000000000', 'application', x'018bcfe5680070008000000000000001', 'Kept', 'kept', x'6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', 1, x'b0b1', 1700000000000000, 1);
INSERT INTO lookups (hash, tenant_id, kind, id) VALUES (x'6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', x'01000000000000000000000000000000', 'application', x'018bcfe5680070008000000000000001');
INSERT INTO claims (tenant_id, key, owner, expires_at, key_version, answer) VALUES (x'01000000000000000000000000000000', x'6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', x'5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', 1900000000000000, 1, x'b0b1');
INSERT INTO jobs (tenant_id, id, kind, run_at, attempts, dead, key_version, payload) VALUES (x'01000000000000000000000000000000', x'018bcfe5680070008000000000000001', 'react', 1700000000000000, 0, 0, 1, x'b0b1');
