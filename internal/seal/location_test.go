package seal_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

func newRing(t *testing.T) *seal.Ring {
	t.Helper()
	return must.Get(seal.NewRing(time.Now()))(t)
}

// next returns the ring with a new primary key.
func next(t *testing.T, ring *seal.Ring) *seal.Ring {
	t.Helper()
	added := must.Get(ring.Add(time.Now()))(t)
	return must.Get(added.Promote())(t)
}

func token() storage.Token {
	at := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	return storage.Token{Ord: storage.ID(uuid.New()), ID: "id", Type: "card", Containers: []string{"/pci/high/"}, ExpiresAt: at, CVCExpiresAt: at}
}

// A field can be decrypted only in its own row. Changing any bound column
// prevents it.
func TestTokenIsBoundToItsRow(t *testing.T) {
	t.Parallel()
	ring := newRing(t)
	row := token()
	var parts seal.Parts
	location := seal.CVCLocation(&row, &parts)
	bytes := must.Get(ring.Seal(&location, []byte("123")))(t)
	for name, change := range map[string]func(*storage.Token){
		"nothing":     func(*storage.Token) {},
		"id":          func(r *storage.Token) { r.ID = "other" },
		"ord":         func(r *storage.Token) { r.Ord = storage.ID(uuid.New()) },
		"type":        func(r *storage.Token) { r.Type = "token" },
		"containers":  func(r *storage.Token) { r.Containers = []string{"/pci/low/"} },
		"expiry":      func(r *storage.Token) { r.ExpiresAt = time.Time{} },
		"cvc's hour":  func(r *storage.Token) { r.CVCExpiresAt = r.CVCExpiresAt.Add(time.Hour) },
		"joined path": func(r *storage.Token) { r.Containers = []string{"/pci/", "high/"} },
	} {
		changed := row
		changed.Containers = slices.Clone(row.Containers)
		change(&changed)
		var parts seal.Parts
		location := seal.CVCLocation(&changed, &parts)
		if _, err := ring.Open(&location, ring.Version(), bytes); (err == nil) != (name == "nothing") {
			t.Errorf("with another %s: %v", name, err)
		}
	}
	body := seal.TokenLocation(&row, &parts)
	must.Fail(ring.Open(&body, ring.Version(), bytes))(t, "a cvc that is opened as a body", must.Text("seal: cannot decrypt"))
}

// The rights of a key cannot be decrypted with the hash of another key.
func TestRecordIsBoundToItsKeys(t *testing.T) {
	t.Parallel()
	ring := newRing(t)
	rec := storage.Record{Kind: "application", ID: storage.ID(uuid.New()), Name: "a", Key: storage.Key{1}, AltKey: storage.Key{2}, CreatedAt: time.Now()}
	location := seal.RecordLocation(&rec)
	bytes := must.Get(ring.Seal(&location, []byte("rights")))(t)
	for name, change := range map[string]func(*storage.Record){
		"nothing":  func(*storage.Record) {},
		"kind":     func(r *storage.Record) { r.Kind = "session" },
		"id":       func(r *storage.Record) { r.ID = storage.ID(uuid.New()) },
		"name":     func(r *storage.Record) { r.Name = "b" },
		"key":      func(r *storage.Record) { r.Key = storage.Key{3} },
		"alt key":  func(r *storage.Record) { r.AltKey = storage.Key{3} },
		"end":      func(r *storage.Record) { r.ExpiresAt = time.Now() },
		"creation": func(r *storage.Record) { r.CreatedAt = r.CreatedAt.Add(time.Second) },
	} {
		changed := rec
		change(&changed)
		location := seal.RecordLocation(&changed)
		if _, err := ring.Open(&location, ring.Version(), bytes); (err == nil) != (name == "nothing") {
			t.Errorf("with another %s: %v", name, err)
		}
	}
}

// Everything that a change writes has the new key afterwards, and can be
// decrypted.
func TestWholeChangeIsResealed(t *testing.T) {
	t.Parallel()
	tenant := uuid.New()
	old := newRing(t)
	r := seal.Resealer{Tenant: tenant, From: old, To: next(t, old)}
	put := func(location seal.Location, text string) []byte {
		t.Helper()
		location.Tenant = tenant
		return must.Get(old.Seal(&location, []byte(text)))(t)
	}
	version := old.Version()
	var parts seal.Parts
	row := token()
	row.KeyVersion = version
	row.Body = put(seal.TokenLocation(&row, &parts), "body")
	row.CVC = put(seal.CVCLocation(&row, &parts), "cvc")
	rec := storage.Record{Kind: "reactor", ID: storage.ID(uuid.New()), KeyVersion: version}
	rec.Body = put(seal.RecordLocation(&rec), "record")
	job := storage.Job{ID: storage.ID(uuid.New()), KeyVersion: version}
	job.Payload = put(seal.JobLocation(job.ID), "job")
	claim := storage.Claim{Key: storage.Key{1}, KeyVersion: version}
	claim.Answer = put(seal.ClaimLocation(claim.Key), "answer")
	ch := &storage.Change{
		InsertTokens: []storage.Token{row}, UpdateTokens: []storage.TokenUpdate{{Token: row}},
		InsertRecords: []storage.Record{rec}, UpdateRecords: []storage.RecordUpdate{{Record: rec}},
		InsertJobs: []storage.Job{job}, UpdateJobs: []storage.JobUpdate{{Job: job}},
		Claim:  &storage.ClaimChange{Claim: claim},
		Reseal: []storage.Sealed{{Kind: storage.SealedClaims, Key: claim.Key, KeyVersion: version, Body: claim.Answer}},
	}
	must.Do(t, r.Change(ch))
	opens := func(what string, location seal.Location, version int, bytes []byte) {
		t.Helper()
		location.Tenant = tenant
		plain, err := r.To.Open(&location, version, bytes)
		if err != nil || string(plain) != what || version != r.To.Version() {
			t.Errorf("%s under key %d: %q, %v", what, version, plain, err)
		}
	}
	for _, got := range []*storage.Token{&ch.InsertTokens[0], &ch.UpdateTokens[0].Token} {
		opens("body", seal.TokenLocation(got, &parts), got.KeyVersion, got.Body)
		opens("cvc", seal.CVCLocation(got, &parts), got.KeyVersion, got.CVC)
	}
	for _, got := range []*storage.Record{&ch.InsertRecords[0], &ch.UpdateRecords[0].Record} {
		opens("record", seal.RecordLocation(got), got.KeyVersion, got.Body)
	}
	for _, got := range []*storage.Job{&ch.InsertJobs[0], &ch.UpdateJobs[0].Job} {
		opens("job", seal.JobLocation(got.ID), got.KeyVersion, got.Payload)
	}
	opens("answer", seal.ClaimLocation(claim.Key), ch.Claim.Claim.KeyVersion, ch.Claim.Claim.Answer)
	opens("answer", seal.ClaimLocation(claim.Key), ch.Reseal[0].KeyVersion, ch.Reseal[0].Body)
	if err := r.Change(ch); err != nil {
		t.Errorf("again: %v", err) // data that has the key already stays
	}
}
