package vaulttest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestNewIsReadyForUse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	v := vaulttest.New(t)
	for name, key := range map[string]string{"public": v.PublicKey, "private": v.PrivateKey, "management": v.ManagementKey} {
		if _, err := v.Authenticate(ctx, key); err != nil {
			t.Errorf("%s key: %v", name, err)
		}
	}
	expires := v.Clock.Now().Add(time.Hour)
	tok, err := v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret", ExpiresAt: expires})
	if err != nil {
		t.Fatal(err)
	}
	v.Clock.Advance(time.Hour)
	if _, err := v.Private.GetToken(ctx, tok.ID); !errors.Is(err, vault.ErrNotFound) {
		t.Errorf("after its expiry: %v, want ErrNotFound", err)
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		vaulttest.New(b)
	}
}

// In a test, the code under test gets a client, and the test checks what it
// stored.
func Example() {
	t := &testing.T{} // provided by go test
	v := vaulttest.New(t)
	defer v.Close()

	tok, err := v.Private.CreateToken(context.Background(), vault.TokenParams{Type: vault.TypeCardNumber, Data: "4242424242424242"})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(tok.Data)
	// Output: "XXXXXXXXXXXX4242"
}

// A rotation does not wait, and loses no concurrent write.
func TestRotateKeysDuringWrites(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	stop, written := make(chan struct{}), make(chan []string)
	for n := range 2 {
		go func() {
			var ids []string
			defer func() { written <- ids }()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				tok, err := v.Owner.CreateToken(context.Background(), vault.TokenParams{ID: fmt.Sprintf("t-%d-%d", n, i), Type: vault.TypeGeneric, Data: i})
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				ids = append(ids, tok.ID)
			}
		}()
	}
	for range 3 {
		if err := v.RotateDataKeys(t.Context(), v.Acme.ID, nil); err != nil {
			t.Errorf("rotate: %v", err)
		}
	}
	close(stop)
	for _, id := range append(<-written, <-written...) {
		if _, err := v.Owner.GetToken(t.Context(), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}
