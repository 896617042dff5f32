package storagetest

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// generator makes changes and queries from a seed. Values come from small sets,
// so that queries have results and changes have conflicts.
type generator struct {
	*rand.Rand
	*source
	model   *dbTest // has the rows of accepted changes
	tenants []storage.ID
	actors  []storage.ID
}

func newGenerator(seed uint64, m *dbTest) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x5eed)), source: &source{}, model: m}
	for range 4 {
		g.actors = append(g.actors, g.id())
	}
	g.tenants = g.actors[:2]
	return g
}

// tokens returns the tokens of a tenant, without their hashes.
func (g *generator) tokens(tenant storage.ID) []storage.Token {
	all, _ := g.model.list(storage.TokenFilter{Tenant: tenant, Limit: 1000})
	return all
}

func (g *generator) records(tenant storage.ID) []storage.Record {
	all, _ := g.model.records(storage.RecordFilter{Tenant: tenant, Limit: 1000})
	return all
}

func (g *generator) jobs(tenant storage.ID) []storage.Job {
	f := storage.JobFilter{Tenant: tenant, Limit: 1000}
	alive := g.model.jobs(f)
	f.Dead = true
	return append(alive, g.model.jobs(f)...)
}

func pick[T any](g *generator, of []T) T { return of[g.IntN(len(of))] }

// some returns up to n values, possibly none.
func some[T any](g *generator, n int, make func() T) []T {
	values := []T{}
	for range g.IntN(n + 1) {
		values = append(values, make())
	}
	return values
}

func (g *generator) text() string {
	return strings.Join(some(g, 3, func() string {
		return pick(g, []string{"a", "A", "b", "*", "%", "_", "?", "é", "É", "日", "🙂", "'", `\`, " ", "\n"})
	}), "")
}

func (g *generator) tokenID() string { return "i" + g.text() }

// far are times that a database may take for none, or cannot store as
// nanoseconds.
var far = []time.Time{
	time.Unix(0, 0), time.Unix(-1, 999999000), time.Date(1900, 1, 1, 0, 0, 0, 1000, time.UTC),
	time.Date(2262, 4, 12, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC),
}

// moment returns a time close to now, a far one, or the zero time.
func (g *generator) moment() time.Time {
	switch g.IntN(12) {
	case 0, 1, 2:
		return g.zoned(time.Time{})
	case 3:
		return g.zoned(pick(g, far))
	}
	return g.around()
}

// around returns a time close to now.
func (g *generator) around() time.Time {
	return g.zoned(now.Add(time.Duration(g.IntN(9)-4) * time.Millisecond))
}

// day returns a time on one of the last days, often at midnight.
func (g *generator) day() time.Time {
	at := g.around().AddDate(0, 0, -g.IntN(4))
	if g.IntN(3) == 0 {
		at = at.UTC().Truncate(24 * time.Hour)
	}
	return g.zoned(at)
}

// limit returns a small limit, or one above the number of rows.
func (g *generator) limit() int { return pick(g, []int{0, 1, 2, 3, 1000, 1000}) }

// zoned returns the same time in another zone.
func (g *generator) zoned(at time.Time) time.Time {
	return at.In(pick(g, []*time.Location{time.UTC, time.FixedZone("", 13*3600), time.FixedZone("NPT", 5*3600+45*60)}))
}

// finer returns a time with nanoseconds, which a backend does not store.
func (g *generator) finer(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return at.Add(time.Duration(g.IntN(1000)))
}

// claimKey and recordKey return one of a few keys.
func (g *generator) claimKey() storage.Key  { return keyOf(uint64(300 + g.IntN(6))) }
func (g *generator) recordKey() storage.Key { return keyOf(uint64(200 + g.IntN(40))) }

func (g *generator) searchHash() storage.Hash { return hashOf(uint64(g.IntN(7))) }

func (g *generator) fill(t *storage.Token) {
	set := pick(g, sets)
	t.Set, t.Containers = set.Set, set.Containers
	t.Fingerprint, t.Expression = keyOf(uint64(g.IntN(4))), hashOf(uint64(g.IntN(2)))
	t.Dedup = storage.Hash{}
	if g.IntN(3) == 0 {
		t.Dedup = hashOf(uint64(100 + g.IntN(20)))
	}
	t.Hashes = some(g, 4, g.searchHash)
	t.KeyVersion, t.Body = g.IntN(4), []byte(g.text()+"sealed")
	if g.IntN(40) == 0 {
		t.Body = bytes.Repeat(t.Body, 10_000)
	}
	t.ExpiresAt, t.CVCExpiresAt, t.CVC = g.finer(g.moment()), g.finer(g.moment()), nil
	if !t.CVCExpiresAt.IsZero() {
		t.CVC = []byte("sealed cvc")
	}
}

func (g *generator) newToken() storage.Token {
	at := g.around()
	t := storage.Token{
		Tenant: pick(g, g.tenants), Ord: idAt(at, g.last.Add(1)), ID: g.tokenID(), Type: pick(g, types),
		CreatedBy: pick(g, g.actors), CreatedAt: g.finer(at), Rev: int64(1 + g.IntN(3)),
	}
	g.fill(&t)
	return t
}

func (g *generator) newRecord() storage.Record {
	r := g.record(pick(g, []string{"proxy", "reactor"}), g.text())
	r.Tenant, r.KeyVersion, r.ExpiresAt, r.CreatedAt = pick(g, g.tenants), g.IntN(4), g.finer(g.moment()), g.finer(g.around())
	r.Key, r.AltKey = storage.Key{}, storage.Key{}
	if g.IntN(2) == 0 {
		r.Key = g.recordKey()
	}
	if alt := g.recordKey(); g.IntN(3) == 0 && alt != r.Key {
		r.AltKey = alt
	}
	return r
}

func (g *generator) newJob() storage.Job {
	job := g.job(g.finer(g.around()))
	job.Tenant, job.KeyVersion, job.Dead = pick(g, g.tenants), g.IntN(4), g.IntN(5) == 0
	if g.IntN(4) == 0 {
		job.Owner, job.LeaseUntil = pick(g, g.actors), g.finer(g.around())
	}
	if g.IntN(5) == 0 {
		job.Payload = nil
	}
	return job
}

func (g *generator) newLog() storage.Log {
	at := g.day()
	entry := g.log(pick(g, types), g.tokenID())
	entry.ID, entry.CreatedAt = idAt(at, g.last.Add(1)), g.finer(at)
	entry.Operation, entry.ActorID = pick(g, []string{"create", "read"}), pick(g, g.actors)
	entry.ActorType = pick(g, []string{"application", "user"})
	return entry
}

// change returns inserts, or updates and deletes of existing rows. Some of them
// have a wrong revision or owner, or are another tenant's.
func (g *generator) change(tenant storage.ID) *storage.Change {
	c := &storage.Change{Tenant: tenant, Now: g.around(), Logs: some(g, 2, g.newLog)}
	if c.Relaxed = g.IntN(12) == 0; c.Relaxed {
		return c
	}
	if g.IntN(4) == 0 {
		c.Claim = g.claimChange()
	}
	if g.IntN(3) > 0 {
		c.InsertTokens = some(g, 3, g.newToken)
		c.InsertRecords = some(g, 1, g.newRecord)
		c.InsertJobs = some(g, 2, g.newJob)
		c.Hold = g.hold(tenant)
		return c
	}
	of := tenant
	if g.IntN(12) == 0 {
		of = pick(g, g.tenants)
	}
	g.changeTokens(c, of)
	g.changeRecords(c, of)
	g.changeJobs(c, of)
	return c
}

// hold returns a record that a change holds, sometimes at a wrong revision, or
// nil.
func (g *generator) hold(tenant storage.ID) *storage.Hold {
	rows := g.records(tenant)
	if len(rows) == 0 || g.IntN(4) > 0 {
		return nil
	}
	row := pick(g, rows)
	return &storage.Hold{Kind: row.Kind, ID: row.ID, Rev: row.Rev + int64(g.IntN(8)/7)}
}

func (g *generator) claimChange() *storage.ClaimChange {
	claim := storage.Claim{Key: g.claimKey(), Owner: pick(g, g.actors), LeaseUntil: g.finer(g.moment()), ExpiresAt: g.finer(g.around()), KeyVersion: g.IntN(4)}
	op := pick(g, []storage.ClaimOp{storage.ClaimTake, storage.ClaimTake, storage.ClaimFinish, storage.ClaimDrop})
	if op == storage.ClaimFinish || g.IntN(2) == 0 {
		claim.Answer = []byte(g.text() + "sealed")
	}
	return &storage.ClaimChange{Op: op, Claim: claim}
}

// changeTokens adds updates and deletes of a tenant's tokens. No row of the
// change takes a Dedup hash that another row gives up, because the order in
// which a backend handles them is undefined.
func (g *generator) changeTokens(c *storage.Change, of storage.ID) {
	given, stored := map[storage.Hash]bool{}, map[storage.ID]storage.Token{}
	for _, token := range g.tokens(of) {
		stored[token.Ord] = token
		switch g.IntN(6) {
		case 0:
			c.DeleteTokens = append(c.DeleteTokens, deleteOf(token))
			given[token.Dedup] = true
		case 1:
			c.UpdateTokens = append(c.UpdateTokens, g.update(token))
			given[token.Dedup] = true
		}
	}
	for i := range c.UpdateTokens {
		if next := &c.UpdateTokens[i].Token; given[next.Dedup] {
			next.Dedup = stored[next.Ord].Dedup
		}
	}
}

// changeRecords is like changeTokens, for records and their keys.
func (g *generator) changeRecords(c *storage.Change, of storage.ID) {
	given, stored := map[storage.Key]bool{}, map[storage.ID]storage.Record{}
	for _, record := range g.records(of) {
		stored[record.ID] = record
		switch g.IntN(6) {
		case 0:
			c.DeleteRecords = append(c.DeleteRecords, storage.RecordDelete{Kind: record.Kind, ID: record.ID, Rev: record.Rev})
		case 1:
			next := g.newRecord()
			next.ID, next.Kind, next.CreatedAt = record.ID, record.Kind, record.CreatedAt
			c.UpdateRecords = append(c.UpdateRecords, storage.RecordUpdate{Rev: record.Rev, Record: next})
		default:
			continue
		}
		given[record.Key], given[record.AltKey] = true, true
	}
	for i := range c.UpdateRecords {
		if next := &c.UpdateRecords[i].Record; given[next.Key] || given[next.AltKey] {
			next.Key, next.AltKey = stored[next.ID].Key, stored[next.ID].AltKey
			if g.IntN(2) == 0 {
				next.Key, next.AltKey = next.AltKey, next.Key
			}
		}
	}
}

// changeJobs adds updates, deletes and new seals of a tenant's jobs, and new
// seals of claims.
func (g *generator) changeJobs(c *storage.Change, of storage.ID) {
	for _, job := range g.jobs(of) {
		owner := job.Owner
		if g.IntN(12) == 0 {
			owner = pick(g, g.actors)
		}
		switch g.IntN(6) {
		case 0:
			c.DeleteJobs = append(c.DeleteJobs, storage.JobDelete{Owner: owner, ID: job.ID})
		case 1:
			next := g.newJob()
			next.ID = job.ID
			if !owner.IsZero() {
				c.UpdateJobs = append(c.UpdateJobs, storage.JobUpdate{Owner: owner, Job: next, Until: g.finer(g.moment())})
			}
		case 2:
			c.Reseal = append(c.Reseal, g.sealed(storage.SealedJobs, jobKey(job.ID)))
		}
	}
	if g.IntN(2) == 0 && c.Claim == nil {
		c.Reseal = append(c.Reseal, g.sealed(storage.SealedClaims, g.claimKey()))
	}
}

func (g *generator) sealed(kind storage.SealedKind, key storage.Key) storage.Sealed {
	return storage.Sealed{Kind: kind, Key: key, KeyVersion: g.IntN(5), Body: []byte(g.text() + "again"), Replace: g.IntN(2) == 0}
}

// update changes a token. A backend ignores the new id and origin.
func (g *generator) update(token storage.Token) storage.TokenUpdate {
	next := g.newToken()
	next.Type, next.ModifiedBy, next.ModifiedAt = token.Type, pick(g, g.actors), g.finer(g.moment())
	u := updateOf(token, next)
	u.KeepHashes = g.IntN(2) == 0
	if g.IntN(12) == 0 {
		u.Rev++
	}
	return u
}
