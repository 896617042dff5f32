package jsruntime_test

import (
	"context"
	"fmt"
	"log"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// The vault gets a runtime when it is opened, runs the code of reactors and
// transforms in it, and closes it when the vault is closed. Nothing else in the
// program changes.
func ExampleNew() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, vault.NewKey(), &vault.Config{
		Runtime: jsruntime.New(&jsruntime.Options{Workers: 8, MemoryLimit: 64 << 20}), // or New(nil)
	})
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close()

	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	c := v.Tenant(acme.ID)
	reactor, err := c.CreateReactor(ctx, vault.ReactorParams{
		Name:          "Length",
		Code:          `module.exports = async ({ args }) => ({ raw: { length: args.value.length } });`,
		Configuration: map[string]string{},
	})
	if err != nil {
		log.Fatal(err)
	}
	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	result, err := c.React(ctx, reactor.ID, vault.ReactParams{Args: map[string]string{"value": "{{ " + tok.ID + " }}"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Raw)
	// Output: {"length":6}
}
