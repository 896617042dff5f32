package postgres

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/storage"
)

// TestQuickIsComposed holds the short way to the long one: same text, same
// parameters.
func TestQuickIsComposed(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	entry := storage.Log{ID: storage.ID{1}, EntityID: "a", CreatedAt: now}
	token := storage.Token{Ord: storage.ID{2}, ID: "a", Type: "card", Body: []byte("b"), CreatedAt: now, ExpiresAt: now}
	hashed := token
	hashed.Hashes = []storage.Hash{{1}, {2}}
	manyHashes := token
	for i := range byte(maxListedHashes + 1) {
		manyHashes.Hashes = append(manyHashes.Hashes, storage.Hash{i}, storage.Hash{i})
	}
	take := storage.ClaimChange{Op: storage.ClaimTake, Claim: storage.Claim{Key: storage.Key{3}, LeaseUntil: now}}
	changes := map[string]*storage.Change{
		"log":              {Logs: []storage.Log{entry}},
		"relaxed log":      {Logs: []storage.Log{entry}, Relaxed: true},
		"token":            {InsertTokens: []storage.Token{token}, Logs: []storage.Log{entry}},
		"hashed token":     {InsertTokens: []storage.Token{hashed}, Logs: []storage.Log{entry}},
		"all listed":       {InsertTokens: []storage.Token{{Hashes: manyHashes.Hashes[2:]}}, Logs: []storage.Log{entry}},
		"too many hashes":  {InsertTokens: []storage.Token{manyHashes}, Logs: []storage.Log{entry}},
		"token with claim": {InsertTokens: []storage.Token{hashed}, Logs: []storage.Log{entry}, Claim: &take, Now: now},
		"not synced token": {InsertTokens: []storage.Token{token}, Logs: []storage.Log{entry}, Relaxed: true},
	}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &slot{shard: 7}
			form, ok := s.quickForm(c, nil)
			if !ok {
				t.Fatal("not taken for a quick change")
			}
			long := compose(c, 7, nil, onlyReadLogs(c))
			if diff := cmp.Diff(long.text(), form.text(c)); diff != "" {
				t.Errorf("text (-composed +quick):\n%s", diff)
			}
			if diff := cmp.Diff(long.args, s.quickArgs(c)); diff != "" {
				t.Errorf("parameters (-composed +quick):\n%s", diff)
			}
		})
	}
}

// TestQuickLeavesItsChanges sends changes one after the other on one connection,
// whose memory they share: each has its own values, and keeps them.
func TestQuickLeavesItsChanges(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	change := func(seed byte, body int) *storage.Change {
		text := string(bytes.Repeat([]byte{'a' + seed}, 36))
		return &storage.Change{
			Tenant: storage.ID{seed},
			InsertTokens: []storage.Token{{
				Ord: storage.ID{seed, 1}, ID: text, Type: "card", Hashes: []storage.Hash{{seed}}, CreatedAt: now.Add(time.Duration(seed) * time.Second),
				Body: bytes.Repeat([]byte{seed}, body), CVC: bytes.Repeat([]byte{seed}, body%3),
			}},
			Logs: []storage.Log{{ID: storage.ID{seed, 2}, EntityID: text, Operation: "create", CreatedAt: now}},
		}
	}
	s := &slot{}
	var before *storage.Change
	for seed, body := range []int{100, 100, 101, 0, maxKept, maxKept + 1, maxKept + 1, 100} {
		c := change(byte(seed), body)
		same := cmp.Equal(compose(c, 0, nil, false).args, s.quickArgs(c))
		if !same {
			t.Errorf("the parameters of change %d are not its own", seed)
		}
		if before != nil && !cmp.Equal(change(byte(seed-1), len(before.InsertTokens[0].Body)), before) {
			t.Errorf("change %d was changed by the next one", seed-1)
		}
		before = c
	}
}

func TestNotQuick(t *testing.T) {
	t.Parallel()
	entry := storage.Log{ID: storage.ID{1}}
	changes := map[string]*storage.Change{
		"no log":        {InsertTokens: make([]storage.Token, 1)},
		"two logs":      {Logs: []storage.Log{entry, entry}},
		"two tokens":    {InsertTokens: make([]storage.Token, 2), Logs: []storage.Log{entry}},
		"claim alone":   {Claim: &storage.ClaimChange{Op: storage.ClaimTake}, Logs: []storage.Log{entry}},
		"finished":      {Claim: &storage.ClaimChange{Op: storage.ClaimFinish}, InsertTokens: make([]storage.Token, 1), Logs: []storage.Log{entry}},
		"update":        {UpdateTokens: make([]storage.TokenUpdate, 1), Logs: []storage.Log{entry}},
		"delete":        {DeleteTokens: make([]storage.TokenDelete, 1), Logs: []storage.Log{entry}},
		"new record":    {InsertRecords: make([]storage.Record, 1), Logs: []storage.Log{entry}},
		"record update": {UpdateRecords: make([]storage.RecordUpdate, 1), Logs: []storage.Log{entry}},
		"record delete": {DeleteRecords: make([]storage.RecordDelete, 1), Logs: []storage.Log{entry}},
		"job":           {InsertJobs: make([]storage.Job, 1), Logs: []storage.Log{entry}},
		"job update":    {UpdateJobs: make([]storage.JobUpdate, 1), Logs: []storage.Log{entry}},
		"job delete":    {DeleteJobs: make([]storage.JobDelete, 1), Logs: []storage.Log{entry}},
		"reseal":        {Reseal: make([]storage.Sealed, 1), Logs: []storage.Log{entry}},
	}
	for name, c := range changes {
		if _, ok := new(slot).quickForm(c, nil); ok {
			t.Errorf("%s: taken for a quick change", name)
		}
	}
	if _, ok := new(slot).quickForm(&storage.Change{Logs: []storage.Log{entry}}, make([]storage.ContainerSet, 1)); ok {
		t.Error("new set: taken for a quick change")
	}
}
