-- Indexes for lists of rare log entries. Most entries record that a token was
-- created, read or used. Neither index has them, so they cost nothing more.
INSERT INTO vault_migrations (version, vault_id) SELECT 1004, vault_id FROM vault_migrations WHERE version = 1001;

CREATE INDEX vault_logs_operation ON vault_logs (tenant_id, operation, id) WHERE operation NOT IN ('create', 'read', 'use');
CREATE INDEX vault_logs_type ON vault_logs (tenant_id, entity_type, id)
	WHERE entity_type IN ('application', 'proxy', 'reactor', 'session', 'tenant');
