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
func eraseUntilKilled(dsn string) error {
	ctx := context.Background()
	key, err := vault.ParseKey(os.Getenv(childKey))
	if err != nil {
		return err
	}
	store, err := openStore(ctx, dsn)
	if err != nil {
		return err
	}
	v, err := vault.Open(ctx, store, key, &vault.Config{WorkEvery: -1, SweepEvery: -1})
	if err != nil {
		return err
	}
	defer v.Close()
	_, err = v.Tenant(uuid.MustParse(os.Getenv(childTenant))).EraseTokens(ctx, erasedTokens)
	return err
}
