package core

import (
	"context"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/storage"
)

// Lookup returns the record that has a key, of any tenant, or
// storage.ErrNotFound. It is the only way to find a record by a key.
//
// The index of keys is not sealed, so an attacker who can write to the database
// can point a key at another record. Lookup compares the keys of the record with
// the key that was looked up, and returns fault.ErrAltered if neither is equal. A
// record is sealed together with its keys, so the caller must open it before
// relying on it.
func Lookup(ctx context.Context, db storage.RecordReader, key storage.Key) (storage.Record, error) {
	rec, err := db.Lookup(ctx, key)
	if err == nil && rec.Key != key && rec.AltKey != key {
		err = fault.ErrAltered
	}
	if err != nil {
		return storage.Record{}, err
	}
	return rec, nil
}
