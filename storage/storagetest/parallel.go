package storagetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

func parallelRules() []rule {
	return []rule{
		{"of many writers of one id one wins", raceForID},
		{"of many writers of one Dedup hash one wins", raceForDedup},
		{"of many writers of one record key one wins", raceForKey},
		{"of many updates of one revision one wins", raceForRevision},
		{"of updates and deletes of one revision one wins", raceOfUpdateAndDelete},
		{"of many updates of one record one wins", raceForRecord},
		{"of many finishers of one job one wins", raceForJob},
		{"changes that have nothing in common all land", disjointWriters},
		{"a refused change does not harm those written at the same time", mixedWriters},
		{"a change that holds another revision does not harm those written at the same time", holdersInParallel},
		{"changes of all shapes can be written at once", allShapes},
		{"reads see a change whole or not at all", readersDuringWrites},
		{"changes of many tenants at once stay apart", tenantsInParallel},
		{"relaxed entries and changes can be written at once", relaxedBesideCreates},
	}
}

const writers = 24

// raceOf lets many writers on several nodes write conflicting changes, and
// returns the index of the change that succeeded.
func (w *world) raceOf(kind storage.ConflictKind, change func(i int) *storage.Change) int {
	w.Helper()
	nodes := w.nodes()
	changes := make([]*storage.Change, writers)
	for i := range changes {
		changes[i] = change(i)
	}
	return w.oneWinner(try(writers, func(i int) error {
		return nodes[i%len(nodes)].Write(w.Context(), changes[i])
	}), kind)
}

// holdersInParallel uses two tenants. Every third change holds a wrong
// revision.
func holdersInParallel(w *world) {
	tenants, rings := []storage.ID{w.id(), w.id()}, []storage.Record{w.record("ring", "a"), w.record("ring", "b")}
	changes := make([]*storage.Change, writers)
	for i, tenant := range tenants {
		w.write(&storage.Change{Tenant: tenant, InsertRecords: []storage.Record{rings[i]}})
	}
	want := make([][]storage.Token, len(tenants))
	for i := range changes {
		of := i % len(tenants)
		token, ring := w.token(fmt.Sprintf("t%02d", i)), rings[of]
		c := insert(tenants[of], token)
		c.Hold, c.Logs = &storage.Hold{Kind: ring.Kind, ID: ring.ID, Rev: ring.Rev}, []storage.Log{w.log("token", token.ID)}
		if changes[i] = c; i%3 == 0 {
			c.Hold.Rev++
			continue
		}
		want[of] = append(want[of], token)
	}
	nodes := w.nodes()
	for i, err := range try(writers, func(i int) error { return nodes[i%len(nodes)].Write(w.Context(), changes[i]) }) {
		if stale := i%3 == 0; stale != errors.Is(err, storage.ErrLate) || !stale && err != nil {
			w.Errorf("change %d: got %v", i, err)
		}
	}
	for i, tenant := range tenants {
		w.hasTokens(tenant, want[i]...)
	}
}

func raceForID(w *world) {
	tenant, tokens := w.id(), w.tokenSeries("", writers)
	winner := w.raceOf(storage.TokenIDTaken, func(i int) *storage.Change {
		tokens[i].ID = "the one"
		c := insert(tenant, tokens[i])
		c.Logs = []storage.Log{w.log("token", fmt.Sprint(i))}
		return c
	})
	w.hasTokens(tenant, tokens[winner])
	logs, total := w.logs(storage.LogFilter{Tenant: tenant, Limit: writers})
	if total != 1 || len(logs) != 1 || logs[0].EntityID != fmt.Sprint(winner) {
		w.Errorf("got %d log entries, want only the winner's", total)
	}
}

func raceForDedup(w *world) {
	tenant, tokens, dedup := w.id(), w.tokenSeries("t", writers), w.hash()
	winner := w.raceOf(storage.DuplicateTaken, func(i int) *storage.Change {
		tokens[i].Dedup = dedup
		return insert(tenant, tokens[i])
	})
	w.hasTokens(tenant, tokens[winner])
}

func raceForKey(w *world) {
	tenants, key := []storage.ID{w.id(), w.id(), w.id()}, w.key()
	winner := w.raceOf(storage.KeyTaken, func(i int) *storage.Change {
		row := w.record("session", fmt.Sprint(i))
		row.Key, row.AltKey = key, storage.Key{}
		return &storage.Change{Tenant: tenants[i%3], InsertRecords: []storage.Record{row}}
	})
	row := w.lookup(key)
	w.same("name of the record", row.Name, fmt.Sprint(winner))
	w.same("tenant of the record", row.Tenant, tenants[winner%3])
	_, total := w.records(storage.RecordFilter{Limit: writers})
	w.same("records", total, 1)
}

func raceForRevision(w *world) {
	tenant, token := w.id(), w.token("a")
	w.write(insert(tenant, token))
	next := make([]storage.Token, writers)
	winner := w.raceOf(storage.TokenStale, func(i int) *storage.Change {
		next[i] = w.changed(token)
		return &storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{updateOf(token, next[i])}}
	})
	next[winner].Rev = 2
	w.hasTokens(tenant, next[winner])
	for i := range next {
		n := len(w.found(tenant, storage.HashIs(next[i].Hashes[0])))
		w.same("tokens by the hash of a writer", n == 1, i == winner)
	}
}

func raceOfUpdateAndDelete(w *world) {
	tenant, token := w.id(), w.token("a")
	w.write(insert(tenant, token))
	next := w.changed(token)
	winner := w.raceOf(storage.TokenStale, func(i int) *storage.Change {
		if i%2 == 0 {
			return &storage.Change{Tenant: tenant, DeleteTokens: []storage.TokenDelete{deleteOf(token)}}
		}
		return &storage.Change{Tenant: tenant, UpdateTokens: []storage.TokenUpdate{updateOf(token, next)}}
	})
	if winner%2 == 0 {
		w.hasTokens(tenant)
		return
	}
	next.Rev = 2
	w.hasTokens(tenant, next)
}

func raceForRecord(w *world) {
	tenant, row := w.id(), w.record("proxy", "p")
	w.insertRecords(tenant, row)
	keys := make([]storage.Key, writers)
	winner := w.raceOf(storage.RecordStale, func(i int) *storage.Change {
		next := row
		keys[i] = w.key()
		next.Name, next.Key = fmt.Sprint(i), keys[i]
		return &storage.Change{Tenant: tenant, UpdateRecords: []storage.RecordUpdate{{Rev: 1, Record: next}}}
	})
	for i, key := range keys {
		w.same("record by the key of a writer", w.lookup(key) != nil, i == winner)
	}
	w.same("record by the replaced key", w.lookup(row.Key), (*storage.Record)(nil))
	w.same("name", w.lookup(row.AltKey).Name, fmt.Sprint(winner))
}

func raceForJob(w *world) {
	tenant, owner, job := w.id(), w.id(), w.job(earlier)
	w.insertJobs(tenant, job)
	w.lease(tenant, owner, 1)
	tokens := w.tokenSeries("t", writers)
	winner := w.raceOf(storage.JobStale, func(i int) *storage.Change {
		c := insert(tenant, tokens[i])
		c.DeleteJobs = []storage.JobDelete{{Owner: owner, ID: job.ID}}
		return c
	})
	w.hasTokens(tenant, tokens[winner])
}

func disjointWriters(w *world) {
	const each = 4
	tenant, nodes := w.id(), w.nodes()
	tokens := w.tokenSeries("t", writers*each)
	for i := range tokens {
		tokens[i].Set, tokens[i].Containers = sets[i%2].Set, sets[i%2].Containers
		tokens[i].Type = types[i%3]
	}
	for i, err := range try(writers, func(i int) error {
		var errs []error
		for _, token := range tokens[i*each : (i+1)*each] {
			c := insert(tenant, token)
			c.Logs = []storage.Log{w.log("token", token.ID)}
			errs = append(errs, nodes[i%len(nodes)].Write(w.Context(), c))
		}
		return errors.Join(errs...)
	}) {
		if err != nil {
			w.Errorf("writer %d: %v", i, err)
		}
	}
	w.hasTokens(tenant, tokens...)
	census(tokens).check(w, tenant, time.Time{})
	_, total := w.logs(storage.LogFilter{Tenant: tenant, Limit: 1})
	w.same("log entries", total, writers*each)
}

// mixedWriters writes simple creates, which a backend may group. Every third
// must be rejected, for different reasons.
func mixedWriters(w *world) {
	tenant, nodes := w.id(), w.nodes()
	taken := w.token("taken")
	taken.Dedup = w.hash()
	w.write(insert(tenant, taken))
	const n = writers * 3
	tokens := w.tokenSeries("t", n)
	want := []storage.Token{taken}
	for i := range tokens {
		tokens[i].Type = types[i%3]
		switch i % 6 {
		case 2:
			tokens[i].ID = "taken"
		case 5:
			tokens[i].Dedup = taken.Dedup
		default:
			want = append(want, tokens[i])
		}
	}
	errs := try(n, func(i int) error {
		c := insert(tenant, tokens[i])
		c.Logs = []storage.Log{w.log("token", tokens[i].ID)}
		return nodes[i%len(nodes)].Write(w.Context(), c)
	})
	for i, err := range errs {
		switch i % 6 {
		case 2:
			w.isConflict(err, storage.TokenIDTaken, 0)
		case 5:
			w.isConflict(err, storage.DuplicateTaken, 0)
		default:
			if err != nil {
				w.Errorf("writer %d: %v", i, err)
			}
		}
	}
	w.hasTokens(tenant, want...)
	census(want).check(w, tenant, time.Time{})
	_, total := w.logs(storage.LogFilter{Tenant: tenant, Limit: 1})
	w.same("log entries", total, len(want)-1)
	for i := range tokens {
		refused := i%3 == 2
		n := w.count(storage.TokenFilter{Tenant: tenant, Where: storage.HashIs(tokens[i].Hashes[0])})
		w.same("a token is found by its hash", n == 0, refused)
	}
}

// allShapes writes changes with rows of every kind to two tenants. Every third
// is rejected because of its last token.
func allShapes(w *world) {
	nodes, tenants := w.nodes(), []storage.ID{w.id(), w.id()}
	taken, changes := w.token("taken"), make([]*storage.Change, writers)
	want := map[storage.ID][]storage.Token{}
	for _, tenant := range tenants {
		w.write(insert(tenant, taken))
		want[tenant] = []storage.Token{taken}
	}
	for i := range changes {
		tenant, mine := tenants[i%2], w.token(fmt.Sprintf("mine%d", i))
		w.write(insert(tenant, mine))
		next := w.changed(mine)
		c := w.full(tenant, fmt.Sprintf("new%d-", i))
		c.UpdateTokens = []storage.TokenUpdate{updateOf(mine, next)}
		changes[i] = c
		if i%3 == 2 {
			c.InsertTokens[2].ID = "taken"
			want[tenant] = append(want[tenant], mine)
			continue
		}
		next.Rev = 2
		want[tenant] = append(want[tenant], append(c.InsertTokens, next)...)
	}
	for i, err := range try(writers, func(i int) error {
		return nodes[i%len(nodes)].Write(w.Context(), changes[i])
	}) {
		refused := i%3 == 2
		if refused {
			w.isConflict(err, storage.TokenIDTaken, 2)
		} else if err != nil {
			w.Errorf("writer %d: %v", i, err)
		}
		c := changes[i]
		w.same("a claim was refused", w.claimed(c.Tenant, c.Claim.Key) == nil, refused)
		w.same("a record was refused", w.lookup(c.InsertRecords[2].Key) == nil, refused)
	}
	for _, tenant := range tenants {
		w.hasTokens(tenant, want[tenant]...)
		census(want[tenant]).check(w, tenant, time.Time{})
	}
}

// readersDuringWrites moves two tokens together between sets. Readers must
// always find both in one set, and a total of two.
func readersDuringWrites(w *world) {
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
	if err := errors.Join(errs...); err != nil {
		w.Error(err)
	}
}

func (w *world) movePair(tenant storage.ID, pair []storage.Token, times int) error {
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

func tenantsInParallel(w *world) {
	nodes := w.nodes()
	tenants := make([]storage.ID, writers)
	examples := make([]example, writers)
	shared := w.example("same")
	for i := range tenants {
		tenants[i], examples[i] = w.id(), w.twin(shared)
	}
	for i, err := range try(writers, func(i int) error {
		return nodes[i%len(nodes)].Write(w.Context(), examples[i].insert(tenants[i]))
	}) {
		if err != nil {
			w.Errorf("writer %d: %v", i, err)
		}
	}
	for i, tenant := range tenants {
		w.hasTokens(tenant, examples[i].token)
		w.same("tenant of the record", w.lookup(examples[i].record.Key).Tenant, tenant)
	}
}

func relaxedBesideCreates(w *world) {
	tenant, nodes := w.id(), w.nodes()
	tokens := w.tokenSeries("t", writers)
	for i, err := range try(writers*2, func(i int) error {
		c := &storage.Change{Tenant: tenant, Logs: []storage.Log{w.log("token", "read")}, Relaxed: true}
		if i%2 == 0 {
			c = insert(tenant, tokens[i/2])
			c.Logs = []storage.Log{w.log("token", "created")}
		}
		return nodes[i%len(nodes)].Write(w.Context(), c)
	}) {
		if err != nil {
			w.Errorf("writer %d: %v", i, err)
		}
	}
	w.hasTokens(tenant, tokens...)
	for _, entity := range []string{"read", "created"} {
		_, total := w.logs(storage.LogFilter{Tenant: tenant, EntityID: entity, Limit: 1})
		w.same("log entries", total, writers)
	}
}

var types = []string{"token", "card", "bank"}

// census has the tokens that the totals of a tenant should count.
type census []storage.Token

// check compares totals with the expected tokens, by set and type and by
// conditions that have no counters.
func (c census) check(w *world, tenant storage.ID, at time.Time) {
	w.Helper()
	count := func(where storage.Cond, holds func(*storage.Token) bool) {
		w.Helper()
		want := 0
		for i := range c {
			alive := at.IsZero() || c[i].ExpiresAt.IsZero() || c[i].ExpiresAt.After(at)
			if alive && holds(&c[i]) {
				want++
			}
		}
		got := w.count(storage.TokenFilter{Tenant: tenant, Where: where, Now: at})
		w.sameFor("total", where, got, want)
	}
	count(nil, func(*storage.Token) bool { return true })
	count(storage.Or{}, func(*storage.Token) bool { return false })
	for i, set := range sets {
		typ := types[i]
		inSet := func(t *storage.Token) bool { return t.Set == set.Set }
		count(storage.SetIn{set.Set}, inSet)
		count(storage.Not{Cond: storage.SetIn{set.Set}}, func(t *storage.Token) bool { return !inSet(t) })
		count(storage.And{storage.SetIn{set.Set}, storage.TypeIn{typ}},
			func(t *storage.Token) bool { return inSet(t) && t.Type == typ })
		count(storage.Or{storage.SetIn{set.Set}, storage.TypeIn{typ}},
			func(t *storage.Token) bool { return inSet(t) || t.Type == typ })
	}
	count(storage.TypeIn{"card", "bank"}, func(t *storage.Token) bool { return t.Type != "token" })
	count(storage.And{storage.TypeIn{"card"}, storage.IDPrefix("t")}, func(t *storage.Token) bool { return t.Type == "card" })
}

// mixedTokens returns tokens of all types and sets, some of which expire.
func (w *world) mixedTokens(n int) []storage.Token {
	tokens := w.tokenSeries("t", n)
	for i := range tokens {
		set := sets[i%2]
		tokens[i].Set, tokens[i].Containers = set.Set, set.Containers
		tokens[i].Type = types[i%3]
		tokens[i].ExpiresAt = []time.Time{{}, earlier, now, later}[i%4]
	}
	return tokens
}
