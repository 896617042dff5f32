//go:build !race

package sim

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/test/model"
	"github.com/seed-72ea4aab/vault/storage"
)

// step is one request about a thing that several clients share.
type step struct {
	kind    string
	thing   string
	value   string // the value to write, or the token to delete
	expires time.Time
}

// book has what clients learned.
type book struct {
	mu      sync.Mutex
	now     int64
	ops     map[string][]porcupine.Operation // by tenant and thing
	entries map[string]*expected             // by tenant, operation and entity
	strange []string                         // unexpected errors
	slow    []string                         // requests that took too long
	jobs    map[string]string                // what acknowledged jobs create
	ended   time.Time                        // when the deletion of the doomed tenant was acknowledged
}

// expected is how many log entries there must be, at least and at most.
type expected struct{ least, most int }

func (b *book) reset() {
	b.ops, b.entries, b.jobs = map[string][]porcupine.Operation{}, map[string]*expected{}, map[string]string{}
}

func (b *book) begin() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now++
	return b.now
}

// end notes the outcome of a request.
func (b *book) end(caller int, q request, out outcome, began int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now++
	ended := b.now
	if out.unknown && out.value != "" {
		b.strange = append(b.strange, fmt.Sprintf("%s: %s", q, out.value))
	}
	if out.unknown {
		ended = forever
	}
	if q.entry != "" {
		e := b.entry(q.tenant, q.entry)
		switch {
		case out.unknown, (q.kind == "get" || q.kind == "search") && out.value == noEffect: // a read may be logged although its caller left
			e.most++
		case !out.refused:
			e.least++
			e.most++
		}
	}
	nothing := out.refused && out.value == noEffect || out.unknown && (q.kind == "get" || q.kind == "search")
	if steps[q.kind] == nil || nothing || !q.expires.IsZero() {
		return
	}
	key := q.tenant.String() + " " + q.thing
	b.ops[key] = append(b.ops[key], operation(caller, q.step, out, began, ended))
}

func (b *book) entry(tenant uuid.UUID, what string) *expected {
	key := tenant.String() + " " + what
	if b.entries[key] == nil {
		b.entries[key] = &expected{}
	}
	return b.entries[key]
}

// patient notes a request that took longer than its deadlines allow: its own, and a
// call that hangs.
func (w *world) patient(n *node, q request, took time.Duration) {
	if most := requestTimeout + 2*longestHang + 45*time.Second; took > most && q.kind != "rotate" && q.kind != "sweep" {
		w.book.mu.Lock()
		defer w.book.mu.Unlock()
		w.book.slow = append(w.book.slow, fmt.Sprintf("%s took %s on %s", q, took, n.name()))
	}
}

// thing is the state of a thing. A token whose creator did not learn its id has the
// value anyID.
type thing struct {
	there bool
	value string
}

const anyID = "?"

// steps are the effects of each kind of request on a thing.
var steps = map[string]func(thing, step, outcome) (bool, thing){
	"create": func(s thing, in step, out outcome) (bool, thing) {
		if s.there {
			return out.refused || out.unknown, s
		}
		return !out.refused, thing{true, in.value}
	},
	"get": read, "search": read,
	"patch": func(s thing, in step, out outcome) (bool, thing) {
		if !s.there {
			return out.refused || out.unknown, s
		}
		return !out.refused, thing{true, in.value}
	},
	"delete": remove, "erase": remove,
	"dedup": same,
	"once":  same,
}

// read is a request that returns a token.
func read(s thing, _ step, out outcome) (bool, thing) {
	return s.there == !out.refused && (out.refused || s.value == out.value), s
}

// remove is a request that deletes a token.
func remove(s thing, in step, out outcome) (bool, thing) {
	switch {
	case !s.there || in.value != "" && s.value != in.value && s.value != anyID:
		return out.refused || out.unknown, s
	case out.refused:
		return s.value == anyID, s
	}
	return true, thing{}
}

// same is a request that creates a token or returns the existing one.
func same(s thing, _ step, out outcome) (bool, thing) {
	switch {
	case out.unknown && s.there:
		return true, s
	case out.unknown:
		return true, thing{true, anyID}
	case out.refused:
		return false, s
	case !s.there || s.value == anyID:
		return true, thing{true, out.value}
	default:
		return s.value == out.value, s
	}
}

// atOnce is a vault in which every request happens at a single moment.
var atOnce = porcupine.Model{
	Init: func() any { return thing{} },
	Step: func(state, input, output any) (bool, any) {
		in := input.(step)
		ok, next := steps[in.kind](state.(thing), in, output.(outcome))
		return ok, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// failf reports a failure of the history.
func (w *world) failf(format string, args ...any) {
	w.logf("FAILURE: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

// check compares the database at the end with what clients learned.
func (w *world) check() {
	for _, text := range slices.Concat(w.book.strange, w.book.slow) {
		w.failf("%s", text)
	}
	for key, ops := range sorted(w.book.ops) {
		switch result, _ := porcupine.CheckOperationsVerbose(atOnce, ops, time.Minute); result {
		case porcupine.Illegal:
			var all strings.Builder
			for _, op := range ops {
				fmt.Fprintf(&all, "\n  client %d, %d to %d: %+v: %+v", op.ClientId, op.Call, op.Return, op.Input, op.Output)
			}
			w.failf("no order explains the outcomes of requests about %s:%s", key, all.String())
		case porcupine.Unknown:
			w.failf("too many outcomes of requests about %s", key)
		default:
		}
	}
	db := w.db.Open()
	w.checkEnds(db)
	w.checkSent()
	for _, tenant := range w.tenants {
		logs, _, err := db.ListLogs(context.Background(), storage.LogFilter{Tenant: tenantID(tenant), Limit: 1 << 20})
		if err != nil {
			w.failf("%v", err)
		}
		tokens, _, err := db.ListTokens(context.Background(), storage.TokenFilter{Tenant: tenantID(tenant), Limit: 1 << 20})
		if err != nil {
			w.failf("%v", err)
		}
		w.checkLog(tenant, logs, tokens)
		w.checkOnce(tenant, tokens)
		if tenant == w.tenants[0] {
			w.checkJobs(logs)
		}
	}
}

// checkLog compares a tenant's log with what clients learned, and with its tokens.
func (w *world) checkLog(tenant uuid.UUID, logs []storage.Log, tokens []storage.Token) {
	counts, balance := map[string]int{}, map[string]int{}
	for _, l := range logs {
		counts[l.Operation+" "+l.EntityID]++
		if audit.IsToken(l.EntityType) {
			switch l.Operation {
			case audit.Create:
				balance[l.EntityID]++
			case audit.Delete:
				balance[l.EntityID]--
			case audit.Expire:
				balance[l.EntityID]--
			}
		}
	}
	for _, t := range tokens {
		balance[t.ID]--
	}
	for id, n := range sorted(balance) {
		if n != 0 {
			w.failf("token %s of %s: %+d more creations than deletions in the log, and rows", id, tenant, n)
		}
	}
	for key, want := range sorted(w.book.entries) {
		if what, ok := strings.CutPrefix(key, tenant.String()+" "); ok && (counts[what] < want.least || counts[what] > want.most) {
			w.failf("%d entries of %q in the log of %s, want %d to %d", counts[what], what, tenant, want.least, want.most)
		}
	}
	for _, l := range logs {
		if l.Operation == audit.Create && strings.HasPrefix(l.EntityID, "both-a-") && counts["create both-b-"+strings.TrimPrefix(l.EntityID, "both-a-")] != 1 {
			w.failf("half of a document was tokenized: %s", l.EntityID)
		}
	}
}

// checkOnce checks that requests with one idempotency key have created one token, and
// did not only return the same one. The same holds for requests that deduplicate.
func (w *world) checkOnce(tenant uuid.UUID, tokens []storage.Token) {
	equal, by := map[storage.Key]int{}, map[string]storage.Key{}
	for i := range tokens {
		equal[tokens[i].Fingerprint]++
		by[tokens[i].ID] = tokens[i].Fingerprint
	}
	for key, ops := range sorted(w.book.ops) {
		thing, ok := strings.CutPrefix(key, tenant.String()+" ")
		last := ops[len(ops)-1]
		if !ok || last.Input.(step).kind != "once" && last.Input.(step).kind != "dedup" {
			continue
		}
		for _, op := range ops {
			if mark, there := by[op.Output.(outcome).value]; there && equal[mark] != 1 {
				w.failf("%d tokens of %s were created", equal[mark], thing)
				break
			}
		}
	}
}

// checkJobs compares the jobs that were acknowledged with their callbacks, and with the
// log of their tenant: a run whose result was sent has created its token once, and a
// run that failed has created none.
func (w *world) checkJobs(logs []storage.Log) {
	created := map[string]int{}
	for _, l := range logs {
		if l.Operation == audit.Create {
			created[l.EntityID]++
		}
	}
	for id, value := range sorted(w.book.jobs) {
		bodies := slices.Sorted(maps.Keys(w.outside.callbacks[id]))
		if len(bodies) != 1 {
			w.failf("job %s was called back with %d results, want 1: %q", id, len(bodies), bodies)
			continue
		}
		want := 0
		if strings.Contains(bodies[0], `"raw"`) {
			want = 1
		}
		if got := created[ranID(value)]; got != want {
			w.failf("job %s created its token %d times, and called back with %s", id, got, bodies[0])
		}
	}
}

// checkSent checks that the destination got no request twice, and each one whose sender
// got its response, with the data of the token.
func (w *world) checkSent() {
	for body, n := range sorted(w.outside.sent) {
		if n > 1 {
			w.failf("the destination got %q %d times", body, n)
		}
	}
	for _, value := range w.outside.accepted {
		if w.outside.sent["data "+value] == 0 {
			w.failf("the destination did not get the data for %s, and the sender got its response", value)
		}
	}
}

// checkEnds checks that nothing is left that should have come to its end.
func (w *world) checkEnds(db *model.Store) {
	if n := db.Unfinished(time.Now()); n > 0 {
		w.failf("%d jobs, or claims with a lease, are left", n)
	}
	if n := db.Rows(tenantID(w.doomed)); n > 0 {
		w.failf("the deleted tenant has %d rows", n)
	}
	for _, id := range w.unsent() {
		w.failf("the sink did not get entry %s", id)
	}
	left, err := db.Expired(context.Background(), storage.ExpiredFilter{Now: time.Now().Add(-time.Minute), Limit: 10})
	if err != nil || len(left.Tokens) > 0 {
		w.failf("after the last sweep, tokens are there that have expired: %d (%v)", len(left.Tokens), err)
	}
}

// unsent returns the log entries that the sink did not get.
func (w *world) unsent() (ids []string) {
	if !w.has.sink {
		return nil
	}
	w.outside.mu.Lock()
	defer w.outside.mu.Unlock()
	for _, tenant := range w.tenants {
		logs, _, _ := w.db.Open().ListLogs(context.Background(), storage.LogFilter{Tenant: tenantID(tenant), Limit: 1 << 20})
		for _, l := range logs {
			if id := uuid.UUID(l.ID).String(); w.outside.sunk[id] == 0 {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// checkLive checks a vault at the end: its evidence, and that no key is left that opens
// a row which was erased.
func (w *world) checkLive(ctx context.Context, v *vault.Vault) {
	for _, tenant := range w.tenants {
		stats, err := v.Tenant(tenant).Stats(ctx)
		if err != nil {
			w.failf("stats: %v", err)
			continue
		}
		for _, key := range stats.Keys {
			if key.State != "destroyed" && key.Version <= w.erased[tenantID(tenant)] {
				w.failf("rows of %s were erased under key %d, and after a rotation there is the %s key %d", tenant, w.erased[tenantID(tenant)], key.State, key.Version)
			}
		}
	}
	if !w.has.evidence {
		return
	}
	_, err := v.Checkpoint(ctx)
	if err != nil {
		w.failf("the last checkpoint: %v", err)
	}
	if report, err := v.VerifyLogs(ctx, nil); err != nil || !report.OK() || len(report.Findings) > 0 {
		w.failf("the evidence does not verify: %v %+v", err, report)
	}
}

// audit returns a problem of a change that is about to be applied: each token that it
// changes needs exactly one log entry, and each entry about a change a token.
func (w *world) audit(s *store, c *storage.Change) string {
	if len(c.Logs) == 0 {
		return ""
	}
	rows := map[string]int{}
	for _, t := range c.InsertTokens {
		rows["create "+t.ID]++
	}
	for _, u := range c.UpdateTokens {
		rows["change "+u.Token.ID]++
	}
	ords, versions := map[storage.ID]string{}, map[storage.ID]int{}
	if len(c.DeleteTokens) > 0 {
		all, _, _ := s.Store.ListTokens(context.Background(), storage.TokenFilter{Tenant: c.Tenant, Limit: 1 << 20})
		for _, t := range all {
			ords[t.Ord] = t.ID
			versions[t.Ord] = t.KeyVersion
		}
	}
	for _, d := range c.DeleteTokens {
		w.sealed(c.Tenant, versions[d.Ord])
		rows["delete "+ords[d.Ord]]++
	}
	for _, l := range c.Logs {
		if !audit.IsToken(l.EntityType) {
			continue
		}
		switch l.Operation {
		case audit.Create:
			rows["create "+l.EntityID]--
		case audit.Update:
			rows["change "+l.EntityID]--
		case audit.Delete:
			rows["delete "+l.EntityID]--
		case audit.Expire:
			if l.Message == "Card cvc expired" {
				rows["change "+l.EntityID]--
			} else {
				rows["delete "+l.EntityID]--
			}
		}
	}
	var problems []string
	for what, n := range sorted(rows) {
		if n != 0 {
			problems = append(problems, fmt.Sprintf("%+d rows without an entry to %s", n, what))
		}
	}
	return strings.Join(problems, "; ")
}

// sealed notes the key of a token that is about to be deleted.
func (w *world) sealed(tenant storage.ID, version int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.erased[tenant] = max(w.erased[tenant], version)
}

// sorted iterates over a map in the order of its keys.
func sorted[K cmp.Ordered, V any](m map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}
