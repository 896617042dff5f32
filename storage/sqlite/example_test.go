package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// A vault in a file can be opened again with the same master key. Closing the
// vault closes the store.
func ExampleOpen() {
	folder, err := os.MkdirTemp("", "vault-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "vault.db")
	key := vault.NewKey() // a program keeps the key, apart from the file
	ctx := context.Background()

	store, err := sqlite.Open(ctx, path)
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, key, nil)
	if err != nil {
		log.Fatal(err)
	}
	acme, err := v.CreateTenant(ctx, "Acme")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := v.Tenant(acme.ID).CreateToken(ctx, vault.TokenParams{ID: "greeting", Type: vault.TypeGeneric, Data: "hello"}); err != nil {
		log.Fatal(err)
	}
	if err := v.Close(); err != nil {
		log.Fatal(err)
	}

	if store, err = sqlite.Open(ctx, path); err != nil {
		log.Fatal(err)
	}
	if v, err = vault.Open(ctx, store, key, nil); err != nil {
		log.Fatal(err)
	}
	defer v.Close()
	out, err := v.Tenant(acme.ID).Detokenize(ctx, "{{ greeting }}")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out)
	// Output: "hello"
}
