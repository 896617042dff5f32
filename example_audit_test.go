package vault_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// newTenant opens a vault in memory for an example, and adds a tenant.
func newTenant(cfg *vault.Config) (*vault.Vault, *sqlite.Store, *vault.Owner) {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	return v, store, v.Tenant(acme.ID)
}

// An order and the token of its card are committed together, or not at all.
func ExampleClient_InTx() {
	ctx := context.Background()
	v, store, c := newTenant(nil)
	defer v.Close()
	db, err := store.OpenDB() // on PostgreSQL, any pool on the same database
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE orders (card text)`); err != nil {
		log.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	tok, err := c.InTx(tx).CreateToken(ctx, vault.TokenParams{ID: "card-1", Type: vault.TypeCardNumber, Data: "4242424242424242"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (?)`, tok.ID); err != nil {
		log.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		log.Fatal(err)
	}
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
	if err != nil {
		log.Fatal(err)
	}
	done, err := c.EraseTokens(ctx, vault.EraseParams{Query: "metadata.customer:42", Reason: "case 4711"})
	if err != nil {
		log.Fatal(err)
	}
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
	if err := c.ExportEvidence(ctx, &bundle); err != nil {
		log.Fatal(err)
	}
	key, err := v.EvidenceKey()
	if err != nil {
		log.Fatal(err)
	}
	report, err := evidence.Verify(&bundle, key, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.OK(), report.Entries)
	// Output: true 1
}

// The audit log of all tenants is appended to a file, and sent to an OpenTelemetry
// collector.
func ExampleSink() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, "vault.db")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{Sinks: []vault.Sink{
		{Name: "file", Sender: vault.LogFile("/var/log/vault.jsonl")},
		{Name: "siem", Sender: vault.LogHTTP("https://collector.example", nil), Format: vault.FormatOTLP, FromStart: true},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()
}
