package storagetest

import (
	"bytes"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// CheckFixture checks that a backend can read and change the rows of a fixture,
// a database with an earlier schema. It has a token with two hashes, its log
// entry, a record with a key, a claim and a job, all of one tenant.
func CheckFixture(t *testing.T, db storage.Storage) {
	t.Helper()
	ctx, tenant, key := t.Context(), storage.ID{1}, storage.Key(bytes.Repeat([]byte{'k'}, len(storage.Key{})))
	hash := storage.HashIs(bytes.Repeat([]byte{0xa1}, len(storage.Hash{})))
	tokens, total, err := db.ListTokens(ctx, storage.TokenFilter{Tenant: tenant, Where: hash, Limit: 10, Count: true})
	if err != nil || len(tokens) != 1 || total != 1 || tokens[0].ID != "kept" || string(tokens[0].Body) != "\xb0\xb1" {
		t.Fatalf("got %d tokens of %d, %v", len(tokens), total, err)
	}
	if logs, total, err := db.ListLogs(ctx, storage.LogFilter{Tenant: tenant, Limit: 10}); err != nil || len(logs) != 1 || total != 1 {
		t.Errorf("got %d log entries of %d, %v", len(logs), total, err)
	}
	if r, err := db.Lookup(ctx, key); err != nil || r.Name != "Kept" || r.Tenant != tenant {
		t.Errorf("got the record %q, %v", r.Name, err)
	}
	if c, err := db.Claim(ctx, tenant, key); err != nil || string(c.Answer) != "\xb0\xb1" {
		t.Errorf("got the claim %v, %v", c.ExpiresAt, err)
	}
	if jobs, err := db.Jobs(ctx, storage.JobFilter{Tenant: tenant, Limit: 10}); err != nil || len(jobs) != 1 {
		t.Errorf("got %d jobs, %v", len(jobs), err)
	}
	gone := storage.TokenDelete{Ord: tokens[0].Ord, Rev: 1, Set: tokens[0].Set, Type: tokens[0].Type}
	if err := db.Write(ctx, &storage.Change{Tenant: tenant, Now: time.Unix(0, 0), DeleteTokens: []storage.TokenDelete{gone}}); err != nil {
		t.Error(err)
	}
	if counts, err := db.Count(ctx, storage.CountFilter{Tenant: tenant, Kind: "session"}); err != nil || counts.Logs != 1 {
		t.Errorf("got %+v, %v", counts, err)
	}
}
