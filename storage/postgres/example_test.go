package postgres_test

import (
	"context"
	"log"
	"os"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/postgres"
)

// A node behind PgBouncer, with two hosts of which one accepts writes. The
// password can come from PGPASSWORD or a password file, which lib/pq reads.
func ExampleOpenOptions() {
	ctx := context.Background()
	store, err := postgres.OpenOptions(ctx, "postgres://vault@db1,db2/vault?port=6432,6432&sslmode=verify-full", &postgres.Options{
		MaxConns:          32,
		TransactionPooler: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	key, err := vault.ParseKey(os.Getenv("TOKENVAULT_MASTER_KEY"))
	if err != nil {
		log.Fatal(err)
	}
	v, err := vault.Open(ctx, store, key, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer v.Close() // also closes the store
}
