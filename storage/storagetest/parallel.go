package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/model"
	"github.com/seed-72ea4aab/vault/storage"
)

func parallelRules() []rule {
	rules := []rule{
		{"a refused change does not harm those written at the same time", simpleWriters},
		{"changes of all shapes can be written at once", allShapes},
		{"changes of many tenants at once stay apart", tenantsInParallel},
		{"reads see a change whole or not at all", readersDuringWrites},
	}
	for text, of := range races {
		rules = append(rules, rule{"of many " + text + " one wins", func(w *dbTest) { w.mirrored().race(of) }})
	}
	return rules
}

const writers = 24

// mirrored is a test with a model that gets the changes that the database has
// accepted.
type mirrored struct {
	*dbTest
	model *dbTest
}

func (w *dbTest) mirrored() *mirrored {
	return &mirrored{w, &dbTest{T: w.T, source: w.source, store: model.New().Open()}}
}

// write applies a change that must be accepted.
func (w *mirrored) write(c *storage.Change) {
	w.Helper()
	w.dbTest.write(c)
	w.model.write(c)
}

// agree compares everything that the changes are about with the model.
func (w *mirrored) agree(changes []*storage.Change) {
	w.Helper()
	seen := map[storage.ID]bool{}
	for _, c := range changes {
		if !seen[c.Tenant] {
			seen[c.Tenant] = true
			w.dbTest.agreeOnState(w.model, c.Tenant)
		}
		for _, t := range c.InsertTokens {
			for _, h := range t.Hashes {
				w.dbTest.agree(w.model, "tokens by hash", nil, func(w *dbTest) any { return w.found(c.Tenant, storage.HashIs(h)) })
			}
		}
		for _, u := range c.UpdateTokens {
			w.dbTest.agree(w.model, "tokens by hash", nil, func(w *dbTest) any { return w.found(c.Tenant, storage.HashIs(u.Token.Hashes[0])) })
		}
		for _, r := range c.InsertRecords {
			w.dbTest.agree(w.model, "record", nil, func(w *dbTest) any { return w.lookup(r.Key) })
		}
		for _, u := range c.UpdateRecords {
			w.dbTest.agree(w.model, "record", nil, func(w *dbTest) any { return w.lookup(u.Record.Key) })
		}
		if c.Claim != nil {
			w.dbTest.agree(w.model, "claim", nil, func(w *dbTest) any { return w.claimed(c.Tenant, c.Claim.Key) })
		}
	}
}

// contest returns changes of which the database can accept one. The others have
// a conflict of this kind.
type contest func(w *mirrored) (storage.ConflictKind, func(i int) *storage.Change)

// races are contests, by what the changes are.
var races = map[string]contest{
	"writers of one id": func(w *mirrored) (storage.ConflictKind, func(i int) *storage.Change) {
		tenant := w.id()
		return storage.TokenIDTaken, func(i int) *storage.Change {
			c := insert(tenant, w.token("the one"))
			c.Logs = []storage.Log{w.log("token", fmt.Sprint(i))}
			return c
		}
	},
	"writers of one Dedup hash": func(w *mirrored) (storage.ConflictKind, func(i int) *storage.Change) {
		tenant, dedup := w.id(), w.hash()
		return storage.DuplicateTaken, func(i int) *storage.Change {
			token := w.token(fmt.Sprint(i))
			token.Dedup = dedup
			return insert(tenant, token)
		}
	},
	"writers of one record key, of any tenant,": func(w *mirrored) (storage.ConflictKind, func(i int) *storage.Change) {
		tenants, key := []storage.ID{w.id(), w.id(), w.id()}, w.key()
		return storage.KeyTaken, func(i int) *storage.Change {
			row := w.record("session", fmt.Sprint(i))
			row.Key, row.AltKey = key, storage.Key{}
			return &storage.Change{Tenant: tenants[i%3], InsertRecords: []storage.Record{row}}
		}
	},
	"updates and deletes of one revision": func(w *mirrored) (storage.ConflictKind, func(i int) *storage.Change) {
		tenant, token := w.id(), w.token("a")
		w.write(insert(tenant, token))
		return storage.TokenStale, func(i int) *storage.Change {
			if i%4 == 0 {
				return &storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{deleteOf(token)}}
			}
			return &storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{updateOf(token, w.changed(token))}}
		}
	},
	"updates of one record": func(w *mirrored) (storage.ConflictKind, func(i int) *storage.Change) {
		tenant, row := w.id(), w.record("proxy", "p")
		w.write(&storage.Change{Tenant: tenant, InsertRecords: []storage.Record{row}})
		return storage.RecordStale, func(i int) *storage.Change {
			next := row
			next.Name, next.Key = fmt.Sprint(i), w.key()
			return &storage.Change{Tenant: tenant, UpdateRecords: []storage.RecordUpdate{{Rev: 1, Record: next}}}
		}
	},
	"finishers of one job": func(w *mirrored) (storage.ConflictKind, func(i int) *storage.Change) {
		tenant, owner, job := w.id(), w.id(), w.job(earlier)
		w.write(&storage.Change{Tenant: tenant, InsertJobs: []storage.Job{job}})
		w.lease(tenant, owner, 1)
		w.model.lease(tenant, owner, 1)
		return storage.JobStale, func(i int) *storage.Change {
			c := insert(tenant, w.token(fmt.Sprint(i)))
			c.DeleteJobs = []storage.JobDelete{{Owner: owner, ID: job.ID}}
			return c
		}
	},
	"takers of a claim": func(w *mirrored) (storage.ConflictKind, func(i int) *storage.Change) {
		return storage.ClaimTaken, takers(w, w.id(), w.key())
	},
	"takers of a dead claim": func(w *mirrored) (storage.ConflictKind, func(i int) *storage.Change) {
		tenant, dead := w.id(), w.claim()
		dead.LeaseUntil = earlier
		w.write(take(tenant, dead))
		return storage.ClaimTaken, takers(w, tenant, dead.Key)
	},
}

// takers returns changes that take a claim, each with a different token.
func takers(w *mirrored, tenant storage.ID, key storage.Key) func(i int) *storage.Change {
	return func(i int) *storage.Change {
		claim := w.claim()
		claim.Key = key
		c := take(tenant, claim)
		c.InsertTokens = []storage.Token{w.token(fmt.Sprint(i))}
		return c
	}
}

// race lets writers on several nodes write conflicting changes. One of them
// must win, and the database must be as if the others had not written.
func (w *mirrored) race(of contest) {
	w.Helper()
	nodes, changes := w.nodes(), make([]*storage.Change, writers)
	kind, change := of(w)
	for i := range changes {
		changes[i] = change(i)
	}
	winner := -1
	for i, err := range try(writers, func(i int) error { return nodes[i%len(nodes)].Write(w.Context(), changes[i]) }) {
		switch {
		case err != nil:
			w.isConflict(err, kind, 0)
		case winner >= 0:
			w.Fatalf("writers %d and %d both won", winner, i)
		default:
			winner = i
		}
	}
	if winner < 0 {
		w.Fatal("no writer won")
	}
	w.model.write(changes[winner])
	w.agree(changes)
}

// attempt is a change with the error that it must have.
type attempt struct {
	change *storage.Change
	want   error
}

// atOnce writes the changes of a round concurrently, on several nodes, one round
// after the other. It checks that the database has the rows of the changes that it
// had to accept, and no others.
func (w *mirrored) atOnce(rounds ...[]attempt) {
	w.Helper()
	nodes := w.nodes()
	var changes []*storage.Change
	for _, attempts := range rounds {
		for i, err := range try(len(attempts), func(i int) error { return nodes[i%len(nodes)].Write(w.Context(), attempts[i].change) }) {
			change, want := attempts[i].change, attempts[i].want
			var conflict *storage.Conflict
			switch {
			case errors.As(want, &conflict):
				w.isConflict(err, conflict.Kind, conflict.Index)
			case !errors.Is(err, want):
				w.Errorf("writer %d: got %v, want %v", i, err, want)
			case err == nil:
				w.model.write(change)
			}
			changes = append(changes, change)
		}
	}
	w.agree(changes)
}

// simpleWriters writes creates and entries of reads, which a backend may group,
// first of one tenant and in one form, then of two tenants and in all forms.
// Changes of one form are alike, except for what the form changes.
func simpleWriters(w *dbTest) {
	m, tenants := w.mirrored(), []storage.ID{w.id(), w.id()}
	taken := w.full(tenants[1], "taken")
	taken.InsertTokens, taken.InsertRecords[0].Kind = taken.InsertTokens[:1], "ring"
	for _, tenant := range tenants {
		c := *taken
		c.Tenant, c.InsertRecords = tenant, slices.Clone(taken.InsertRecords[:1])
		c.InsertRecords[0].Key, c.InsertRecords[0].AltKey = storage.Key{}, storage.Key{}
		m.write(&c)
	}
	rounds := make([][]attempt, len(forms)+1)
	for round := range rounds {
		attempts := make([]attempt, writers)
		for i := range attempts {
			token, entry := w.token(fmt.Sprint("t", round, "-", i)), w.log("token", "")
			form, tenant := round, tenants[0]
			token.ModifiedBy, token.ModifiedAt = storage.ID{}, time.Time{}
			if round == len(forms) {
				form, tenant = i%len(forms), tenants[i%2]
			} else {
				like, said := &taken.InsertTokens[0], &taken.Logs[0]
				token.Set, token.Containers, token.Expression = like.Set, like.Containers, like.Expression
				token.KeyVersion, token.CreatedBy, entry.ActorID = like.KeyVersion, like.CreatedBy, said.ActorID
			}
			c := insert(tenant, token)
			entry.EntityID = token.ID
			c.Logs = []storage.Log{entry}
			attempts[i] = attempt{c, forms[form](w, i, taken, c)}
		}
		rounds[round] = attempts
	}
	m.atOnce(rounds...)
}

// forms change a simple create, and return the error that it must have beside
// the taken rows.
var forms = []func(w *dbTest, i int, taken, c *storage.Change) error{
	column(func(int, *storage.Token, *storage.Log) {}),
	func(_ *dbTest, i int, taken, c *storage.Change) error {
		if i/2%2 == 0 {
			c.Tenant = taken.Tenant
		}
		return nil
	},
	column(func(i int, t *storage.Token, _ *storage.Log) { t.Type = types[i%2] }),
	column(func(i int, t *storage.Token, _ *storage.Log) {
		t.Set, t.Containers = sets[i%2].Set, sets[i%2].Containers
	}),
	column(func(i int, t *storage.Token, _ *storage.Log) { t.Expression = hashOf(uint64(i % 2)) }),
	column(func(i int, t *storage.Token, _ *storage.Log) { t.KeyVersion = i % 2 }),
	column(func(i int, t *storage.Token, _ *storage.Log) { t.CreatedBy = storage.ID{byte(i % 2)} }),
	column(func(i int, t *storage.Token, _ *storage.Log) { t.Rev = int64(1 + i%2) }),
	column(func(i int, _ *storage.Token, l *storage.Log) { l.ActorID = storage.ID{byte(i % 2)} }),
	column(func(i int, _ *storage.Token, l *storage.Log) { l.ActorType = types[i%2] }),
	column(func(i int, _ *storage.Token, l *storage.Log) { l.ActorName = types[i%2] }),
	column(func(i int, _ *storage.Token, l *storage.Log) { l.EntityType = types[i%2] }),
	column(func(i int, _ *storage.Token, l *storage.Log) { l.Operation = types[i%2] }),
	column(func(i int, _ *storage.Token, l *storage.Log) { l.Message = types[i%2] }),
	func(_ *dbTest, _ int, taken, c *storage.Change) error {
		c.InsertTokens[0].ID = taken.InsertTokens[0].ID
		return &storage.Conflict{Kind: storage.TokenIDTaken}
	},
	func(_ *dbTest, _ int, taken, c *storage.Change) error {
		c.InsertTokens[0].Dedup = taken.InsertTokens[0].Dedup
		return &storage.Conflict{Kind: storage.DuplicateTaken}
	},
	func(w *dbTest, i int, taken, c *storage.Change) error {
		if c.Claim = (&storage.ClaimChange{Op: storage.ClaimTake, Claim: w.answered()}); i%4 < 2 {
			return nil
		}
		c.Claim.Key = taken.Claim.Key
		return &storage.Conflict{Kind: storage.ClaimTaken}
	},
	func(_ *dbTest, i int, taken, c *storage.Change) error {
		ring := taken.InsertRecords[0]
		if c.Hold = (&storage.Hold{Kind: ring.Kind, ID: ring.ID, Rev: ring.Rev}); i%4 < 2 {
			return nil
		}
		c.Hold.Rev++
		return storage.ErrLate
	},
	func(w *dbTest, i int, _, c *storage.Change) error {
		if t := &c.InsertTokens[0]; i%4 < 2 {
			t.CVC, t.CVCExpiresAt, t.ExpiresAt, t.Dedup = []byte("sealed cvc"), later, later, w.hash()
			t.ModifiedBy, t.ModifiedAt = w.id(), later
		} else {
			t.Hashes = nil
		}
		return nil
	},
	func(w *dbTest, i int, _, c *storage.Change) error {
		c.InsertTokens, c.Relaxed = nil, true
		if l := &c.Logs[0]; i%4 < 2 {
			l.ActorID, l.ActorType, l.ActorName, l.Origin, l.Mac = storage.ID{}, "", "", "", storage.Hash{}
		} else {
			l.Operation, l.Message, l.EntityType = "use", fmt.Sprint("message", i%3), types[i%3]
			c.Logs = append(c.Logs, w.log("token", "another"))
		}
		return nil
	},
	func(_ *dbTest, _ int, _, c *storage.Change) error {
		c.InsertTokens, c.Relaxed = nil, true
		return nil
	},
}

// column returns a form that changes a column of the token or of its entry.
func column(set func(i int, t *storage.Token, l *storage.Log)) func(*dbTest, int, *storage.Change, *storage.Change) error {
	return func(_ *dbTest, i int, _, c *storage.Change) error {
		set(i/2, &c.InsertTokens[0], &c.Logs[0]) // both values reach each of two nodes
		return nil
	}
}

// allShapes writes changes with rows of every kind to two tenants. Every third
// is rejected because of its last token.
func allShapes(w *dbTest) {
	m, tenants, taken := w.mirrored(), []storage.ID{w.id(), w.id()}, w.token("taken")
	for _, tenant := range tenants {
		m.write(insert(tenant, taken))
	}
	attempts := make([]attempt, writers)
	for i := range attempts {
		tenant, mine := tenants[i%2], w.token(fmt.Sprintf("mine%d", i))
		m.write(insert(tenant, mine))
		c := w.full(tenant, fmt.Sprintf("new%d-", i))
		c.UpdateTokens = []storage.TokenUpdate{updateOf(mine, w.changed(mine))}
		attempts[i].change = c
		if i%3 == 2 {
			c.InsertTokens[2].ID = "taken"
			attempts[i].want = &storage.Conflict{Kind: storage.TokenIDTaken, Index: 2}
		}
	}
	m.atOnce(attempts)
}

// readersDuringWrites moves two tokens together between sets. Readers must
// always find both in one set, and a total of two.
func readersDuringWrites(w *dbTest) {
	tenant := w.id()
	pair := w.tokenSeries("t", 2)
	for i := range pair {
		pair[i].Set, pair[i].Containers = sets[0].Set, sets[0].Containers
	}
	w.write(insert(tenant, pair...))
	const moves = 20
	errs := try(4, func(i int) error {
		if i == 0 {
			return w.movePair(tenant, pair, moves)
		}
		for range moves {
			page, total, err := w.store.ListTokens(w.Context(), storage.TokenFilter{Tenant: tenant, Limit: 5, Count: true})
			if err != nil {
				return err
			}
			if len(page) != 2 || total != 2 || page[0].Rev != page[1].Rev || page[0].Set != page[1].Set {
				return fmt.Errorf("a reader found half of a change: %d tokens, total %d", len(page), total)
			}
		}
		return nil
	})
	w.ok("move and read", errors.Join(errs...))
}

func (w *dbTest) movePair(tenant storage.ID, pair []storage.Token, times int) error {
	for n := range times {
		set := sets[(n+1)%2]
		var c storage.Change
		c.Tenant = tenant
		for i, token := range pair {
			next := token
			next.Set, next.Containers = set.Set, set.Containers
			c.UpdateTokens = append(c.UpdateTokens, updateOf(token, next))
			next.Rev = token.Rev + 1
			pair[i] = next
		}
		if err := w.store.Write(w.Context(), &c); err != nil {
			return err
		}
	}
	return nil
}

func tenantsInParallel(w *dbTest) {
	m, shared, attempts := w.mirrored(), w.example("same"), make([]attempt, writers)
	for i := range attempts {
		e := w.twin(shared)
		attempts[i].change = e.insert(w.id())
	}
	m.atOnce(attempts)
}

var types = []string{"token", "card", "bank"}
