// Package model implements the contract of package storage in plain Go: maps
// under one mutex. The conformance suite compares backends with it, and is
// itself tested on it. The simulator runs vaults on it. It aims to be obviously
// correct, not fast.
package model

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// DB is a database in memory.
type DB struct {
	mu      sync.Mutex
	tenants map[storage.ID]*tenant
	lookups map[storage.Key]recordRef
	trees   map[storage.ID]*tree
	entries uint64 // log entries ever written
	changes int64  // changes with log entries
}

type tenant struct {
	tokens  map[storage.ID]storage.Token
	sets    map[storage.Hash][]string
	records map[recordID]storage.Record
	logs    map[storage.ID]storage.Log
	written []written // all logs ever written, in order
	claims  map[storage.Key]storage.Claim
	jobs    map[storage.ID]storage.Job
}

// written is a log entry in the order of writing.
type written struct {
	id  storage.ID
	n   uint64 // number of the entry, over all tenants
	seq int64  // number of its change
}

type recordID struct {
	kind string
	id   storage.ID
}

type recordRef struct {
	tenant storage.ID
	recordID
}

// New returns an empty database.
func New() *DB {
	return &DB{tenants: map[storage.ID]*tenant{}, lookups: map[storage.Key]recordRef{}, trees: map[storage.ID]*tree{}}
}

// Open returns a handle on the database. Any number may be open.
func (db *DB) Open() *Store { return &Store{db: db} }

// Save returns a function that restores the rows as they are now, as a rollback does.
func (s *Store) Save() (restore func()) {
	tenants, lookups, trees := map[storage.ID]*tenant{}, maps.Clone(s.db.lookups), map[storage.ID]*tree{}
	for id, t := range s.db.trees {
		trees[id] = t.copy()
	}
	for id, t := range s.db.tenants {
		tenants[id] = &tenant{
			maps.Clone(t.tokens), maps.Clone(t.sets), maps.Clone(t.records), maps.Clone(t.logs), slices.Clone(t.written),
			maps.Clone(t.claims), maps.Clone(t.jobs),
		}
	}
	return func() { s.db.tenants, s.db.lookups, s.db.trees = tenants, lookups, trees }
}

func (db *DB) tenant(id storage.ID) *tenant {
	if t := db.tenants[id]; t != nil {
		return t
	}
	t := &tenant{
		tokens:  map[storage.ID]storage.Token{},
		sets:    map[storage.Hash][]string{},
		records: map[recordID]storage.Record{},
		logs:    map[storage.ID]storage.Log{},
		claims:  map[storage.Key]storage.Claim{},
		jobs:    map[storage.ID]storage.Job{},
	}
	db.tenants[id] = t
	return t
}

// Store is a handle on a DB. It implements storage.Storage.
type Store struct {
	db     *DB
	closed atomic.Bool
}

var (
	_ storage.Storage     = (*Store)(nil)
	_ storage.TreeStorage = (*Store)(nil)
	_ storage.ReadLogger  = (*Store)(nil)
)

// Rows returns the number of rows of a tenant.
func (s *Store) Rows(id storage.ID) int {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	t := s.db.tenant(id)
	return len(t.tokens) + len(t.sets) + len(t.records) + len(t.logs) + len(t.claims) + len(t.jobs)
}

// Unfinished returns the number of jobs that are not dead, and of claims without an
// answer whose lease has not ended.
func (s *Store) Unfinished(now time.Time) (n int) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	for _, t := range s.db.tenants {
		for _, job := range t.jobs {
			if !job.Dead {
				n++
			}
		}
		for _, c := range t.claims {
			if c.Answer == nil && c.LeaseUntil.After(now) {
				n++
			}
		}
	}
	return n
}

// enter locks the database for one call, or returns an error if the call must
// not be served.
func (s *Store) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.db.mu.Lock()
	if s.closed.Load() {
		s.db.mu.Unlock()
		return nil, storage.ErrClosed
	}
	return s.db.mu.Unlock, nil
}

// locked serves one call.
func locked[T any](ctx context.Context, s *Store, serve func() (T, error)) (T, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer leave()
	return serve()
}

// Ping reports whether the handle is open.
func (s *Store) Ping(ctx context.Context) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	leave()
	return nil
}

// Close closes the handle; the database stays.
func (s *Store) Close() error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.closed.Store(true)
	return nil
}

// stored returns a time as the contract stores it.
func stored(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// come reports whether a time is set and has passed at now.
func come(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

func copyToken(t storage.Token) storage.Token {
	t.Containers = slices.Clone(t.Containers)
	t.Hashes = slices.Clone(t.Hashes)
	t.Body = bytes.Clone(t.Body)
	t.CVC = bytes.Clone(t.CVC)
	t.CVCExpiresAt = stored(t.CVCExpiresAt)
	t.ExpiresAt = stored(t.ExpiresAt)
	t.CreatedAt = stored(t.CreatedAt)
	t.ModifiedAt = stored(t.ModifiedAt)
	return t
}

// readToken returns a token as reads return it.
func readToken(t storage.Token) storage.Token {
	t = copyToken(t)
	t.Hashes = nil
	return t
}

func copyRecord(r storage.Record) storage.Record {
	r.Body = bytes.Clone(r.Body)
	r.ExpiresAt = stored(r.ExpiresAt)
	r.CreatedAt = stored(r.CreatedAt)
	return r
}

func copyClaim(c storage.Claim) storage.Claim {
	c.Answer = bytes.Clone(c.Answer)
	c.LeaseUntil = stored(c.LeaseUntil)
	c.ExpiresAt = stored(c.ExpiresAt)
	return c
}

func copyJob(j storage.Job) storage.Job {
	j.Payload = bytes.Clone(j.Payload)
	j.RunAt = stored(j.RunAt)
	j.LeaseUntil = stored(j.LeaseUntil)
	return j
}
