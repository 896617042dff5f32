package evidence_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// An auditor gets a bundle of a tenant's log, the public key of the vault, and a
// checkpoint from before. The database is not needed.
func Example() {
	ctx := context.Background()
	store := result(sqlite.Open(ctx, ":memory:"))
	v := result(vault.Open(ctx, store, vault.NewKey(), &vault.Config{Evidence: &vault.EvidenceConfig{Origin: "vault.example/log"}}))
	defer v.Close()
	c := v.Tenant(result(v.CreateTenant(ctx, "Acme")).ID)
	before := result(v.Checkpoint(ctx))
	result(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"}))
	var bundle bytes.Buffer
	if err := c.ExportEvidence(ctx, &bundle); err != nil {
		panic(err)
	}

	vkey := result(v.EvidenceKey()) // published, for example on a web page
	report := result(evidence.Verify(bytes.NewReader(bundle.Bytes()), vkey, before))
	fmt.Println("genuine:", report.OK())

	altered := bytes.Replace(bundle.Bytes(), []byte(`"operation":"create"`), []byte(`"operation":"read"`), 1)
	report = result(evidence.Verify(bytes.NewReader(altered), vkey, nil))
	fmt.Println("altered:", report.OK(), report.Findings[0].Verdict)
	// Output:
	// genuine: true
	// altered: false altered
}

// result returns the result of a call that the example expects to succeed.
func result[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
