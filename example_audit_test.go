package vault_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// newTenant opens a vault in memory for an example, and adds a tenant.
func newTenant(cfg *vault.Config) (*vault.Vault, *sqlite.Store, *vault.Owner) {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:")
	check(err)
	v, err := vault.Open(ctx, store, vault.NewKey(), cfg)
	check(err)
	acme, err := v.CreateTenant(ctx, "Acme")
	check(err)
	return v, store, v.Tenant(acme.ID)
}

// An order and the token of its card are committed together, or not at all.
func ExampleClient_InTx() {
	ctx := context.Background()
	v, store, c := newTenant(nil)
	defer v.Close()
	db, err := store.OpenDB() // on PostgreSQL, any pool on the same database
	check(err)
	_, err = db.ExecContext(ctx, `CREATE TABLE orders (card text)`)
	check(err)
	tx, err := db.BeginTx(ctx, nil)
	check(err)
	tok, err := c.InTx(tx).CreateToken(ctx, vault.TokenParams{ID: "card-1", Type: vault.TypeCardNumber, Data: "4242424242424242"})
	check(err)
	_, err = tx.ExecContext(ctx, `INSERT INTO orders VALUES (?)`, tok.ID)
	check(err)
	check(tx.Rollback())
	_, err = c.GetToken(ctx, tok.ID)
	fmt.Println(err)
	// Output: vault: token not found
}

// A customer asks to be forgotten.
func ExampleClient_EraseTokens() {
	ctx := context.Background()
	v, _, c := newTenant(nil)
	defer v.Close()
	_, err := c.CreateToken(ctx, vault.TokenParams{
		Type: vault.TypeGeneric, Data: "Jane Doe", Metadata: map[string]string{"customer": "42"}})
	check(err)
	done, err := c.EraseTokens(ctx, vault.EraseParams{Query: "metadata.customer:42", Reason: "case 4711"})
	check(err)
	fmt.Println(done.Count, "erased,", done.Left, "left")
	// Output: 1 erased, 0 left
}

// An auditor verifies the log of a tenant without the database. The public key
// comes from the operator by another way.
func ExampleEvidenceConfig() {
	ctx := context.Background()
	v, _, c := newTenant(&vault.Config{Evidence: &vault.EvidenceConfig{Origin: "vault.example/log"}})
	defer v.Close()
	var bundle bytes.Buffer
	check(c.ExportEvidence(ctx, &bundle))
	key, err := v.EvidenceKey()
	check(err)
	report, err := evidence.Verify(&bundle, key, nil)
	check(err)
	fmt.Println(report.OK(), report.Entries)
	// Output: true 1
}

// The audit log of all tenants is appended to a file, and sent to an OpenTelemetry
// collector.
func ExampleSink() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, "vault.db")
	check(err)
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{Sinks: []vault.Sink{
		{Name: "file", Sender: vault.LogFile("/var/log/vault.jsonl")},
		{Name: "siem", Sender: vault.LogHTTP("https://collector.example", nil), Format: vault.FormatOTLP, FromStart: true},
	}})
	check(err)
	defer v.Close()
}
