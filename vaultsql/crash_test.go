package vaultsql_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultsql"
)

// Environment of a child process: its database and master key.
const (
	childDB  = "VAULT_TEST_SEALED_DB"
	childKey = "VAULT_TEST_SEALED_KEY"
)

func TestMain(m *testing.M) {
	if db := os.Getenv(childDB); db != "" {
		err := sealForever(context.Background(), db)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// person is a row with two tokens.
type person struct{ Name, Email vaultsql.Text }

// openPeople opens a vault with a tenant and a table of people, and creates
// them if needed.
func openPeople(ctx context.Context, dsn string, key *vault.Key) (*vault.Vault, *vault.Client, *sql.DB, error) {
	store, db, err := openStore(ctx, dsn)
	if err != nil {
		return nil, nil, nil, err
	}
	v, err := vault.Open(ctx, store, key, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	tenant, err := v.EnsureTenant(ctx, "Acme")
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS people (name text, email text)")
	}
	if err != nil {
		return nil, nil, nil, err
	}
	return v, v.Tenant(tenant.ID).Client, db, nil
}

// sealForever seals and writes people until it is killed. It prints each
// step.
func sealForever(ctx context.Context, dsn string) error {
	key, err := vault.ParseKey(os.Getenv(childKey))
	if err != nil {
		return err
	}
	_, c, db, err := openPeople(ctx, dsn, key)
	if err != nil {
		return err
	}
	for {
		fmt.Println("begin")
		if err := writePeople(ctx, c, db); err != nil {
			return err
		}
	}
}

func writePeople(ctx context.Context, c *vault.Client, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	rows := make([]person, 5)
	for i := range rows {
		rows[i] = person{vaultsql.NewText("Jane"), vaultsql.NewText("jane@example.com")}
	}
	if err := vaultsql.Seal(ctx, c.InTx(tx), rows); err != nil {
		return err
	}
	fmt.Println("sealed")
	for _, r := range rows {
		if _, err := tx.ExecContext(ctx, "INSERT INTO people (name, email) VALUES ($1, $2)", r.Name, r.Email); err != nil {
			return err
		}
		fmt.Println("inserted")
	}
	return tx.Commit()
}

// TestKillsDuringSeal kills a program that seals in transactions. Rows never
// exist without tokens, nor tokens without rows.
func TestKillsDuringSeal(t *testing.T) {
	t.Parallel()
	for name, newDSN := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, key := newDSN(t), vault.NewKey()
			for range long.Rounds(2, 40) {
				kill(t, dsn, key, 1+rand.IntN(30))
				checkPeople(t, dsn, key)
			}
		})
	}
}

// checkPeople compares the number of rows and tokens.
func checkPeople(t *testing.T, dsn string, key *vault.Key) {
	t.Helper()
	ctx := t.Context()
	v, c, db, err := openPeople(ctx, dsn, key)
	must.Do(t, err)
	defer v.Close()
	defer db.Close()
	found := must.Get(db.QueryContext(ctx, "SELECT name, email FROM people"))(t)
	defer found.Close()
	var rows []person
	for found.Next() {
		var p person
		must.Do(t, found.Scan(&p.Name, &p.Email))
		rows = append(rows, p)
	}
	must.Do(t, found.Err())
	open(t, c, rows)
	page, err := c.ListTokens(ctx, vault.ListTokensParams{})
	if err != nil || page.Pagination.TotalItems != 2*len(rows) || len(rows)%5 != 0 {
		t.Errorf("%d rows with two tokens each, and %d tokens (%v)", len(rows), page.Pagination.TotalItems, err)
	}
}

// kill runs a child until it has printed some lines, and kills it.
func kill(t *testing.T, dsn string, key *vault.Key, lines int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDB+"="+dsn, childKey+"="+key.Text())
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	said := bufio.NewScanner(out)
	for n := 0; n < lines && said.Scan(); n++ {
	}
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
}
