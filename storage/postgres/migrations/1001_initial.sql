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
