-- The index for searches by modified_at. Tokens that were never modified are not in
-- it, so that it costs a create nothing.
INSERT INTO vault_migrations (version, vault_id) SELECT 1007, vault_id FROM vault_migrations WHERE version = 1001;

CREATE INDEX vault_tokens_modified ON vault_tokens (tenant_id, modified_at, ord) WHERE modified_at IS NOT NULL;
