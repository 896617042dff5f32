package cli

import (
	"context"
	"log/slog"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaultkms"
)

// openKey opens the URI of a master key or a tenant's key.
func openKey(ctx context.Context, logger *slog.Logger, uri string) (vault.AEAD, error) {
	return vaultkms.Open(vaultkms.WithLogger(ctx, logger), uri)
}
