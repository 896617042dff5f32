package faults

import (
	"context"
	"os"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// childErase makes the child process erase tokens.
const childErase = "VAULT_FAULTS_ERASE"

var erasedTokens = vault.EraseParams{Query: "type:token", Reason: "case 4711"}

// eraseUntilKilled erases all tokens of a tenant.
func eraseUntilKilled(ctx context.Context, dsn string) error {
	v, err := openInChild(ctx, dsn, quietNode)
	if err != nil {
		return err
	}
	defer v.Close()
	_, err = v.Tenant(uuid.MustParse(os.Getenv(childTenant))).EraseTokens(ctx, erasedTokens)
	return err
}
