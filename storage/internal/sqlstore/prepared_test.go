package sqlstore

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault/storage"
)

// firstPage lists the first page of all tokens, or of the tokens that match a
// condition.
func (s *shelf) firstPage(ctx context.Context, size int, where storage.Cond) (shown, total int, err error) {
	page, total, err := s.store.ListTokens(ctx, storage.TokenFilter{Tenant: someTenant, Where: where, Limit: size, Count: true, Now: sometime})
	return len(page), total, err
}

// prepared returns how many lists the idle connections have prepared, and how
// many queries since the last call were not prepared.
func (s *shelf) prepared() (lists, others int) {
	s.store.lists.mu.Lock()
	for _, c := range s.store.lists.idle {
		lists += len(c.lists)
	}
	s.store.lists.mu.Unlock()
	for _, q := range s.to.take() {
		if !q.prepared {
			others++
		}
	}
	return lists, others
}

// Only lists that one plan suits are prepared, and only once.
func TestPreparedLists(t *testing.T) {
	t.Parallel()
	s := postgresShelf(t, 200)
	ctx := t.Context()
	s.to.take()
	for range 7 { // the server keeps the plan from the sixth run on
		if shown, total, err := s.firstPage(ctx, 20, nil); shown != 20 || total != 199 || err != nil {
			t.Fatalf("%d tokens of %d, %v", shown, total, err)
		}
		if shown, total, err := s.firstPage(ctx, 20, storage.SetIn{setOf(0), setOf(2)}); shown != 20 || total != 40 || err != nil {
			t.Fatalf("under rules: %d tokens of %d, %v", shown, total, err)
		}
	}
	// For both lists the page and the total, which takes two queries because a
	// token has expired. For one list also its pairs of set and type.
	if lists, others := s.prepared(); lists != 7 || others != 0 {
		t.Errorf("%d lists are prepared, want 7; %d queries were not", lists, others)
	}
	if _, _, err := s.firstPage(ctx, 20, storage.HashIs(tenth)); err != nil {
		t.Fatal(err)
	}
	if lists, others := s.prepared(); lists != 7 || others == 0 {
		t.Errorf("%d lists are prepared after one with a filter; %d queries were not", lists, others)
	}
	if _, _, err := s.firstPage(ctx, 20, storage.Not{Cond: storage.SetIn{storage.Hash{1}}}); err != nil { // 15 pairs
		t.Fatal(err)
	}
	if lists, others := s.prepared(); lists != 8 || others == 0 {
		t.Errorf("%d lists are prepared after one of many pairs, want only the lookup of pairs; %d queries were not", lists, others)
	}
}

// Pages of many sizes do not fill the server with statements.
func TestPreparedListsAreBounded(t *testing.T) {
	t.Parallel()
	s := postgresShelf(t, 200)
	for size := range maxLists + 10 {
		if shown, _, err := s.firstPage(t.Context(), size+1, nil); shown != size+1 || err != nil {
			t.Fatalf("%d tokens, %v", shown, err)
		}
	}
	if lists, _ := s.prepared(); lists != maxLists {
		t.Errorf("%d lists are prepared, want %d", lists, maxLists)
	}
}

// A prepared list that ends early leaves its connection usable.
func TestPreparedListsEndEarly(t *testing.T) {
	t.Parallel()
	s := postgresShelf(t, 200)
	page, _, err := s.store.ListTokens(t.Context(), storage.TokenFilter{Tenant: someTenant, Limit: 20, MaxBytes: 5})
	if !errors.Is(err, storage.ErrTooLarge) {
		t.Fatalf("%d tokens, %v", len(page), err)
	}
	if lists, _ := s.prepared(); lists != 1 {
		t.Errorf("%d lists are prepared; the connection was closed", lists)
	}
	gone, cancel := context.WithCancel(t.Context())
	go cancel()
	for gone.Err() == nil {
		if _, _, err := s.firstPage(gone, 100, nil); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if shown, total, err := s.firstPage(t.Context(), 20, nil); shown != 20 || total != 199 || err != nil {
		t.Errorf("%d tokens of %d, %v", shown, total, err)
	}
}

// Another node may add columns and indexes while lists are prepared.
func TestPreparedListsOutliveAMigration(t *testing.T) {
	t.Parallel()
	s := postgresShelf(t, 200)
	for range 7 {
		if _, _, err := s.firstPage(t.Context(), 20, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.store.db.MustExec("ALTER TABLE vault_tokens ADD COLUMN another bytea")
	s.store.db.MustExec("CREATE INDEX ON vault_tokens (tenant_id, another)")
	if shown, total, err := s.firstPage(t.Context(), 20, nil); shown != 20 || total != 199 || err != nil {
		t.Errorf("%d tokens of %d, %v", shown, total, err)
	}
}
