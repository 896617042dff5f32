CREATE TABLE schema_version (version bigint PRIMARY KEY);
-- Every key starts with the tenant. Ids and hashes are bytea, so that they
-- travel as they are; times are microseconds since 1970; NULL means absent.

CREATE TABLE tokens (
	tenant_id      bytea  NOT NULL,
	ord            bytea  NOT NULL,
	id             text   COLLATE "C" NOT NULL,
	type           text   COLLATE "C" NOT NULL,
	set_id         bytea  NOT NULL,
	containers     text   COLLATE "C" NOT NULL,
	fingerprint    bytea  NOT NULL,
	expression     bytea  NOT NULL,
	dedup          bytea,
	hashes         bytea  NOT NULL,
	key_version    bigint NOT NULL,
	body           bytea  NOT NULL,
	cvc            bytea,
	cvc_expires_at bigint,
	expires_at     bigint,
	created_by     bytea,
	created_at     bigint NOT NULL,
	modified_by    bytea,
	modified_at    bigint,
	rev            bigint NOT NULL,
	PRIMARY KEY (tenant_id, ord)
);
CREATE UNIQUE INDEX tokens_id ON tokens (tenant_id, id);
CREATE UNIQUE INDEX tokens_dedup ON tokens (tenant_id, dedup) WHERE dedup IS NOT NULL;
CREATE INDEX tokens_fingerprint ON tokens (tenant_id, fingerprint, ord);
CREATE INDEX tokens_set ON tokens (tenant_id, set_id, type, ord);
CREATE INDEX tokens_expiry ON tokens (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX tokens_tenant_expiry ON tokens (tenant_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX tokens_cvc_expiry ON tokens (cvc_expires_at) WHERE cvc_expires_at IS NOT NULL;

CREATE TABLE token_hashes (
	tenant_id bytea NOT NULL,
	hash      bytea NOT NULL,
	ord       bytea NOT NULL,
	PRIMARY KEY (tenant_id, hash, ord)
);

CREATE TABLE container_sets (
	tenant_id  bytea NOT NULL,
	set_id     bytea NOT NULL,
	containers text  COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant_id, set_id)
);

-- A count is the sum over its shards; several, so that concurrent writers do
-- not wait for one row. Half-filled pages keep its updates inside the page.
CREATE TABLE token_counts (
	tenant_id bytea  NOT NULL,
	set_id    bytea  NOT NULL,
	type      text   COLLATE "C" NOT NULL,
	shard     bigint NOT NULL,
	n         bigint NOT NULL,
	PRIMARY KEY (tenant_id, set_id, type, shard)
) WITH (fillfactor = 50);

CREATE TABLE logs (
	tenant_id   bytea  NOT NULL,
	id          bytea  NOT NULL,
	created_at  bigint NOT NULL,
	actor_id    bytea,
	actor_type  text   COLLATE "C" NOT NULL,
	entity_type text   COLLATE "C" NOT NULL,
	entity_id   text   COLLATE "C" NOT NULL,
	operation   text   COLLATE "C" NOT NULL,
	message     text   COLLATE "C" NOT NULL,
	PRIMARY KEY (tenant_id, id)
);
CREATE INDEX logs_entity ON logs (tenant_id, entity_id, id);

CREATE TABLE records (
	tenant_id   bytea  NOT NULL,
	kind        text   COLLATE "C" NOT NULL,
	id          bytea  NOT NULL,
	name        text   COLLATE "C" NOT NULL,
	name_fold   text   COLLATE "C" NOT NULL,
	key_hash    bytea,
	alt_hash    bytea,
	expires_at  bigint,
	key_version bigint NOT NULL,
	body        bytea  NOT NULL,
	created_at  bigint NOT NULL,
	rev         bigint NOT NULL,
	PRIMARY KEY (tenant_id, kind, id)
);
CREATE INDEX records_expiry ON records (expires_at) WHERE expires_at IS NOT NULL;

-- The one table whose key is not under a tenant: it is asked which tenant a
-- key belongs to.
CREATE TABLE lookups (
	hash      bytea NOT NULL PRIMARY KEY,
	tenant_id bytea NOT NULL,
	kind      text  COLLATE "C" NOT NULL,
	id        bytea NOT NULL
);
CREATE INDEX lookups_tenant ON lookups (tenant_id);

CREATE TABLE claims (
	tenant_id   bytea  NOT NULL,
	key         bytea  NOT NULL,
	owner       bytea  NOT NULL,
	lease_until bigint,
	expires_at  bigint,
	key_version bigint NOT NULL,
	answer      bytea,
	PRIMARY KEY (tenant_id, key)
);
CREATE INDEX claims_expiry ON claims (expires_at) WHERE expires_at IS NOT NULL;

-- Leasing a job updates it, and half-filled pages keep that inside the page.
CREATE TABLE jobs (
	tenant_id   bytea   NOT NULL,
	id          bytea   NOT NULL,
	kind        text    COLLATE "C" NOT NULL,
	run_at      bigint  NOT NULL,
	attempts    bigint  NOT NULL,
	dead        boolean NOT NULL,
	owner       bytea,
	lease_until bigint,
	key_version bigint  NOT NULL,
	payload     bytea   NOT NULL,
	PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 50);
CREATE INDEX jobs_due ON jobs (tenant_id, run_at, id) WHERE NOT dead;
INSERT INTO schema_version (version) VALUES (1001);
-- What a sweep finds dead jobs by.
CREATE INDEX jobs_dead ON jobs (run_at) WHERE dead;
INSERT INTO schema_version (version) VALUES (1002);
-- What lists of one kind over all tenants are read from: of tenants, and, at
-- each sweep, of those whose deletion is not done.
CREATE INDEX records_kind ON records (kind, id, tenant_id);
INSERT INTO schema_version (version) VALUES (1003);

-- Rows of this version: a token with two hashes, what counts it, its log entry, a
-- record with its key, a claim and a job.
INSERT INTO tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, body, created_at, rev)
VALUES ('\x01000000000000000000000000000000', '\x018bcfe5680070008000000000000001', 'kept', 'token', '\x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', '/a/', '\x6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', '\x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', '\xa1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2', 1, '\xb0b1', 1700000000000000, 1);
INSERT INTO token_hashes (tenant_id, hash, ord) VALUES ('\x01000000000000000000000000000000', '\xa1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1', '\x018bcfe5680070008000000000000001'), ('\x01000000000000000000000000000000', '\xa2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2', '\x018bcfe5680070008000000000000001');
INSERT INTO token_counts (tenant_id, set_id, type, shard, n) VALUES ('\x01000000000000000000000000000000', '\x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', 'token', 0, 1);
INSERT INTO container_sets (tenant_id, set_id, containers) VALUES ('\x01000000000000000000000000000000', '\x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', '/a/');
INSERT INTO logs (tenant_id, id, created_at, actor_type, entity_type, entity_id, operation, message)
VALUES ('\x01000000000000000000000000000000', '\x018bcfe5680070008000000000000001', 1700000000000000, 'user', 'token', 'kept', 'create', 'Token created');
INSERT INTO records (tenant_id, kind, id, name, name_fold, key_hash, key_version, body, created_at, rev)
VALUES ('\x01000000000000000000000000000000', 'application', '\x018bcfe5680070008000000000000001', 'Kept', 'kept', '\x6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', 1, '\xb0b1', 1700000000000000, 1);
INSERT INTO lookups (hash, tenant_id, kind, id) VALUES ('\x6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', '\x01000000000000000000000000000000', 'application', '\x018bcfe5680070008000000000000001');
INSERT INTO claims (tenant_id, key, owner, expires_at, key_version, answer) VALUES ('\x01000000000000000000000000000000', '\x6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', '\x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', 1900000000000000, 1, '\xb0b1');
INSERT INTO jobs (tenant_id, id, kind, run_at, attempts, dead, key_version, payload) VALUES ('\x01000000000000000000000000000000', '\x018bcfe5680070008000000000000001', 'react', 1700000000000000, 0, false, 1, '\xb0b1');
