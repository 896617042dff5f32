package storagetest_test

import (
	"context"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/model"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/storagetest"
)

var modelBackend = storagetest.Backend{New: func(testing.TB) storagetest.Opener {
	db := model.New()
	return func(context.Context) (storage.Storage, error) { return db.Open(), nil }
}}

// TestModel checks that the suite requires nothing impossible.
func TestModel(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, modelBackend)
}

// TestVolatileModel runs the rules for a database that cannot be reopened.
func TestVolatileModel(t *testing.T) {
	t.Parallel()
	volatile := modelBackend
	volatile.Volatile = true
	storagetest.Run(t, volatile)
}
