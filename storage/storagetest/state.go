package storagetest

import (
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
)

// state has everything of a tenant that can be read without changing it.
type state struct {
	Tokens   []storage.Token
	Total    int
	BySet    map[storage.Hash]int
	Sets     []string
	Records  []storage.Record
	RecordN  int
	Logs     []storage.Log
	LogN     int
	Answers  []storage.Sealed // of claims
	Payloads []storage.Sealed // of jobs
	Due      bool
}

// state reads everything of a tenant.
func (w *world) state(tenant storage.ID) state {
	w.Helper()
	s := state{BySet: map[storage.Hash]int{}, Sets: w.containers(tenant)}
	s.Tokens, s.Total = w.list(storage.TokenFilter{Tenant: tenant, Limit: 10_000, Count: true})
	for _, set := range sets {
		s.BySet[set.Set] = w.count(storage.TokenFilter{Tenant: tenant, Where: storage.SetIn{set.Set}})
	}
	s.Records, s.RecordN = w.records(storage.RecordFilter{Tenant: tenant, Limit: 10_000})
	s.Logs, s.LogN = w.logs(storage.LogFilter{Tenant: tenant, Limit: 10_000})
	s.Answers = w.sealed(tenant, storage.SealedClaims, 1<<30, 10_000)
	s.Payloads = w.sealed(tenant, storage.SealedJobs, 1<<30, 10_000)
	s.Due = slices.Contains(w.dueTenants(storage.ID{}, 10_000), tenant)
	return s
}

// rows counts the rows of a state.
func (s *state) rows() int {
	return len(s.Tokens) + len(s.Records) + len(s.Logs) + len(s.Answers) + len(s.Payloads)
}

// sealed returns rows that are sealed under an older key, in the order of their
// keys.
func (w *world) sealed(tenant storage.ID, kind storage.SealedKind, version, limit int) []storage.Sealed {
	w.Helper()
	rows, err := w.store.SealedRows(w.Context(), storage.SealedFilter{Tenant: tenant, Kind: kind, KeyBelow: version, Limit: limit})
	if err != nil {
		w.Fatalf("sealed rows: %v", err)
	}
	return rows
}

// unchanged runs a function and checks that it left the tenant as it was.
func (w *world) unchanged(tenant storage.ID, do func()) {
	w.Helper()
	before := w.state(tenant)
	do()
	w.same("state of the tenant", w.state(tenant), before)
}

// example has one row of every kind, to be written in one change.
type example struct {
	token  storage.Token
	record storage.Record
	log    storage.Log
	claim  storage.Claim
	job    storage.Job
}

func (s *source) example(id string) example {
	e := example{
		token: s.token(id), record: s.record("reactor", "Name of "+id), log: s.log("token", id),
		claim: s.answered(), job: s.job(earlier),
	}
	e.token.Dedup = s.hash()
	return e
}

// insert returns the change that stores the example.
func (e *example) insert(tenant storage.ID) *storage.Change {
	return &storage.Change{
		Tenant: tenant, Now: now,
		Claim:         &storage.ClaimChange{Op: storage.ClaimTake, Claim: e.claim},
		InsertTokens:  []storage.Token{e.token},
		InsertRecords: []storage.Record{e.record},
		InsertJobs:    []storage.Job{e.job},
		Logs:          []storage.Log{e.log},
	}
}
