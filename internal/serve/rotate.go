package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// everyTenant stands for all tenants in -rotate-keys.
const everyTenant = "all"

// rotateKeys gives tenants new data keys while servers use the same database, and
// returns a line about the result.
func rotateKeys(ctx context.Context, v *vault.Vault, cfg *Config, bar *terminal.Progress) (string, error) {
	all := cfg.rotateKeys == everyTenant
	id, _ := uuid.Parse(cfg.rotateKeys) // the flags were checked
	tenants, rows, err := Rotate(ctx, v, id, all, bar)
	if err == nil && tenants == 0 {
		err = errors.New("the database has no tenants; is -db right?")
	}
	if err != nil {
		return "", err
	}
	who := "tenant " + cfg.rotateKeys
	if all {
		who = fmt.Sprintf("all tenants (%d)", tenants)
	}
	return fmt.Sprintf("Rotated the keys of %s: %d rows resealed in %s.", who, rows, bar.Took().Round(time.Second)), nil
}

// Rotate gives a tenant, or all tenants, new data keys. It returns the number of
// tenants and of resealed rows. If a tenant fails or the program is stopped,
// finished work remains, and calling Rotate again continues.
func Rotate(ctx context.Context, v *vault.Vault, tenant uuid.UUID, all bool, bar *terminal.Progress) (tenants, rows int, err error) {
	total, err := tokensOf(ctx, v, tenant, all)
	if err != nil {
		return 0, 0, err
	}
	show := func() {
		if rows < total {
			bar.Set("Rotating keys", rows, total)
			return
		}
		bar.Set("Rotating keys: waiting until no server can still use the old keys", 0, 0)
	}
	show()
	opts := &vault.RotateOptions{Progress: func(r, t int) {
		rows, tenants = r, t
		show()
	}}
	if all {
		err = v.RotateAllDataKeys(ctx, opts)
	} else if err = v.RotateDataKeys(ctx, tenant, opts); err != nil {
		err = fmt.Errorf("tenant %s: %w", tenant, err)
	} else {
		tenants = 1
	}
	if err != nil {
		err = fmt.Errorf("%w\nrun it again to continue", err)
	}
	return tenants, rows, err
}

// tokensOf returns the number of tokens of a tenant, or of all tenants. Other rows
// are few.
func tokensOf(ctx context.Context, v *vault.Vault, tenant uuid.UUID, all bool) (int, error) {
	if all {
		sum, err := v.Totals(ctx, math.MaxInt)
		if err != nil {
			return 0, err
		}
		return sum.Tokens, nil
	}
	stats, err := v.Tenant(tenant).Stats(ctx)
	if err != nil {
		return 0, fmt.Errorf("tenant %s: %w", tenant, err)
	}
	return stats.Tokens, nil
}
