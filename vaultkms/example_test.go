package vaultkms_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultkms"
)

func ExampleOpen() {
	ctx := context.Background()
	uri := "exec:" + os.Args[0] + " helper" // or awskms:///alias/vault?region=eu-central-1
	key, err := vaultkms.Open(ctx, uri)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer key.(io.Closer).Close() // after the vault
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := vault.Open(ctx, store, key, &vault.Config{OpenKey: vaultkms.Open})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer v.Close()
	fmt.Println("the fingerprint of the root has", len(v.RootFingerprint()), "digits")
	// Output: the fingerprint of the root has 32 digits
}
