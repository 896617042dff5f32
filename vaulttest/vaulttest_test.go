package vaulttest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
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

// A second run finds the database of the first.
func TestOpenStorageTwice(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	var ids []string
	for run := range 2 {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			store, err := postgres.Open(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			v := vaulttest.OpenStorage(t, store, nil)
			ids = append(ids, v.Acme.ID.String())
		})
	}
	if len(ids) != 2 || ids[0] == ids[1] {
		t.Errorf("tenants %q", ids)
	}
}

// Each vault of Postgres has a schema, which the test drops.
func TestPostgresHasItsOwnSchema(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	var addresses []string
	t.Run("use", func(t *testing.T) {
		for range 2 {
			v := vaulttest.Postgres(t, server)
			addresses = append(addresses, v.SchemaURL)
			tx, err := v.DB.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = v.Owner.InTx(tx).CreateToken(t.Context(), vault.TokenParams{ID: "same-id", Type: vault.TypeGeneric, Data: "x"})
			if err := errors.Join(err, tx.Commit()); err != nil {
				t.Error(err)
			}
		}
	})
	db, err := sql.Open("postgres", server)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, address := range addresses {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := db.QueryRow("SELECT count(*) FROM pg_namespace WHERE nspname = $1", u.Query().Get("search_path")).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d schemas are left: %v", n, err)
		}
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
