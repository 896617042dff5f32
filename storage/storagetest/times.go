package storagetest

import (
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func timeRules() []rule {
	return []rule{
		{"times of tokens keep microseconds and come back in UTC", tokenTimes},
		{"times of records, logs, claims and jobs keep microseconds and come back in UTC", otherTimes},
		{"a zero time is none", zeroTimes},
		{"any time but zero is a time", farTimes},
		{"times are compared as moments, in whatever zone they are given", zonedArguments},
	}
}

// zoned is a time with nanoseconds in a zone other than UTC. kept is the same
// time as stored.
var (
	zoned = time.Date(2031, 7, 8, 23, 59, 59, 123456789, time.FixedZone("NPT", 5*3600+45*60))
	kept  = time.Date(2031, 7, 8, 18, 14, 59, 123456000, time.UTC)
)

// isKept checks that a time was stored according to the contract.
func (w *world) isKept(what string, got time.Time) {
	w.Helper()
	if !got.Equal(kept) || got.Location() != time.UTC {
		w.Errorf("%s is %v, want %v", what, got, kept)
	}
}

func tokenTimes(w *world) {
	tenant, token := w.id(), w.token("a")
	token.Ord = idAt(zoned, 1)
	token.CVC = []byte("sealed")
	token.CreatedAt, token.ModifiedAt, token.ExpiresAt, token.CVCExpiresAt = zoned, zoned, zoned, zoned
	w.write(insert(tenant, token))
	listed, _ := w.list(storage.TokenFilter{Tenant: tenant, Limit: 1})
	dup := w.duplicate(tenant, storage.Duplicate{Fingerprint: token.Fingerprint, Expression: token.Expression, Now: now})
	expired, err := w.store.Expired(w.Context(), storage.ExpiredFilter{Now: kept, Limit: 10})
	if err != nil || len(expired.Tokens) != 1 {
		w.Fatalf("expired: got %d tokens, %v, want one", len(expired.Tokens), err)
	}
	for _, got := range []storage.Token{w.tokens(tenant, "a")[0], listed[0], *dup, expired.Tokens[0]} {
		w.isKept("CreatedAt", got.CreatedAt)
		w.isKept("ModifiedAt", got.ModifiedAt)
		w.isKept("ExpiresAt", got.ExpiresAt)
		w.isKept("CVCExpiresAt", got.CVCExpiresAt)
	}
}

func otherTimes(w *world) {
	tenant, e := w.id(), w.example("a")
	e.record.ExpiresAt, e.record.CreatedAt = zoned, zoned
	e.log.CreatedAt, e.log.ID = zoned, idAt(zoned, 1)
	e.claim.ExpiresAt, e.claim.LeaseUntil = zoned, zoned
	e.job.RunAt = zoned
	w.write(e.insert(tenant))

	record := w.lookup(e.record.Key)
	w.isKept("ExpiresAt of the record", record.ExpiresAt)
	w.isKept("CreatedAt of the record", record.CreatedAt)
	logs, _ := w.logs(storage.LogFilter{Tenant: tenant, Limit: 1})
	w.isKept("CreatedAt of the entry", logs[0].CreatedAt)
	claim := w.claimed(tenant, e.claim.Key)
	w.isKept("ExpiresAt of the claim", claim.ExpiresAt)
	w.isKept("LeaseUntil of the claim", claim.LeaseUntil)
	jobs, err := w.store.LeaseJobs(w.Context(), storage.Lease{
		Tenant: tenant, Owner: w.id(), Now: kept, Until: zoned, Limit: 1,
	})
	if err != nil || len(jobs) != 1 {
		w.Fatalf("lease: got %d jobs, %v, want one", len(jobs), err)
	}
	w.isKept("RunAt of the job", jobs[0].RunAt)
	w.isKept("LeaseUntil of the job", jobs[0].LeaseUntil)
}

func zeroTimes(w *world) {
	tenant, e := w.id(), w.example("a")
	zero := time.Time{}.In(time.FixedZone("", 3600))
	e.token.ExpiresAt, e.token.CVCExpiresAt, e.token.ModifiedAt = zero, zero, zero
	e.record.ExpiresAt = zero
	e.claim.LeaseUntil = zero
	e.job.LeaseUntil = zero
	w.write(e.insert(tenant))
	token := w.tokens(tenant, "a")[0]
	for what, got := range map[string]time.Time{
		"ExpiresAt of the token":    token.ExpiresAt,
		"CVCExpiresAt of the token": token.CVCExpiresAt,
		"ModifiedAt of the token":   token.ModifiedAt,
		"ExpiresAt of the record":   w.lookup(e.record.Key).ExpiresAt,
		"LeaseUntil of the claim":   w.claimed(tenant, e.claim.Key).LeaseUntil,
	} {
		if !got.IsZero() {
			w.Errorf("%s is %v, want the zero time", what, got)
		}
	}
	far := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	expired, err := w.store.Expired(w.Context(), storage.ExpiredFilter{Now: far, Limit: 10})
	if err != nil || len(expired.Tokens)+len(expired.CVCs)+len(expired.Records) != 0 {
		w.Errorf("expired: got %v, %v, want nothing", expired, err)
	}
	w.same("tokens at the end of time", w.count(storage.TokenFilter{Tenant: tenant, Now: far}), 1)
	w.same("jobs", len(w.lease(tenant, w.id(), 10)), 1)
}

func farTimes(w *world) {
	tenant := w.id()
	times := []time.Time{
		time.Unix(0, 0).UTC(),
		time.Unix(-1, 999999000).UTC(),
		time.Date(1900, 1, 1, 0, 0, 0, 1000, time.UTC),
		time.Date(2262, 4, 12, 0, 0, 0, 0, time.UTC), // beyond 64 bits of nanoseconds
		time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
	}
	var tokens []storage.Token
	for i, at := range times {
		token := w.token(string(rune('a' + i)))
		token.ModifiedAt, token.ExpiresAt = at, at
		tokens = append(tokens, token)
		record := w.record("session", "s")
		record.ExpiresAt = at
		w.insertRecords(tenant, record)
		w.same("expiry of the record", w.lookup(record.Key).ExpiresAt, at)
	}
	w.write(insert(tenant, tokens...))
	w.hasTokens(tenant, tokens...)
	w.same("not expired at now", w.count(storage.TokenFilter{Tenant: tenant, Now: now}), 2)
	w.same("modified until the epoch", w.found(tenant, storage.TimeIn{Field: storage.ModifiedAt, To: times[0]}),
		[]string{"c", "b", "a"})
}

func zonedArguments(w *world) {
	tenant := w.id()
	east, west := time.FixedZone("", 13*3600), time.FixedZone("", -11*3600)
	tokens := w.tokenSeries("t", 3)
	tokens[0].ExpiresAt = now.In(east)
	tokens[1].ExpiresAt = now.Add(time.Microsecond).In(west)
	tokens[2].ModifiedAt = later.In(east)
	w.write(insert(tenant, tokens...))
	for _, zone := range []*time.Location{east, west} {
		w.same("not expired", w.count(storage.TokenFilter{Tenant: tenant, Now: now.In(zone)}), 2)
		w.same("modified later", w.found(tenant, storage.TimeIn{
			Field: storage.ModifiedAt, From: later.In(zone), To: later.In(zone),
		}), []string{"t0002"})
	}
	job := w.job(now.In(east))
	job.Owner, job.LeaseUntil = w.id(), now.In(west)
	w.insertJobs(tenant, job)
	w.same("jobs", len(w.lease(tenant, w.id(), 10)), 1)
	claim, next := w.claim(), w.claim()
	claim.LeaseUntil, next.Key = now.In(east), claim.Key
	w.write(take(tenant, claim))
	c := take(tenant, next)
	c.Now = now.In(west)
	w.write(c)
	w.same("claim", w.claimed(tenant, claim.Key), &next)
}
