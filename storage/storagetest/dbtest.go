package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-72ea4aab/vault/storage"
)

// dbTest is a test with its database.
type dbTest struct {
	*testing.T
	*source
	backend Backend
	open    Opener
	store   storage.Storage // the first handle
}

func newDbTest(t *testing.T, b Backend) *dbTest {
	t.Helper()
	w := &dbTest{T: t, source: &source{}, backend: b, open: b.New(t)}
	w.store = w.node()
	return w
}

// node opens the database again, as another node does.
func (w *dbTest) node() storage.Storage {
	w.Helper()
	s := must(w.open(w.Context()))(w, "open")
	w.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, storage.ErrClosed) {
			w.Errorf("close: %v", err)
		}
	})
	return s
}

// nodes returns the handles that writers use: two, if the database can be
// opened twice.
func (w *dbTest) nodes() []storage.Storage {
	w.Helper()
	if w.backend.Volatile {
		return []storage.Storage{w.store}
	}
	return []storage.Storage{w.store, w.node()}
}

// write applies a change that must be accepted.
func (w *dbTest) write(c *storage.Change) {
	w.Helper()
	w.ok("write", w.store.Write(w.Context(), c))
}

// refused applies a change that must fail with a conflict of this kind on one
// of these rows.
func (w *dbTest) refused(c *storage.Change, kind storage.ConflictKind, rows ...int) {
	w.Helper()
	w.isConflict(w.store.Write(w.Context(), c), kind, rows...)
}

func (w *dbTest) isConflict(err error, kind storage.ConflictKind, rows ...int) {
	w.Helper()
	if msg := conflictProblem(err, kind, rows...); msg != "" {
		w.Fatal(msg)
	}
}

// conflictProblem describes how an error differs from the expected conflict.
func conflictProblem(err error, kind storage.ConflictKind, rows ...int) string {
	want := (&storage.Conflict{Kind: kind}).Error()
	var conflict *storage.Conflict
	if !errors.As(err, &conflict) {
		return fmt.Sprintf("got error %v, want a *storage.Conflict like %q", err, want)
	}
	if conflict.Kind != kind || !slices.Contains(rows, conflict.Index) {
		return fmt.Sprintf("got conflict %q, want one like %q on one of the rows %v", conflict, want, rows)
	}
	exists := kind == storage.TokenIDTaken || kind == storage.DuplicateTaken ||
		kind == storage.KeyTaken || kind == storage.ClaimTaken
	if errors.Is(err, storage.ErrExists) != exists || errors.Is(err, storage.ErrStale) == exists {
		return fmt.Sprintf("conflict %q: ErrExists %t, ErrStale %t, want %t and %t", conflict,
			errors.Is(err, storage.ErrExists), errors.Is(err, storage.ErrStale), exists, !exists)
	}
	return ""
}

// ok ends the test if a call failed.
func (w *dbTest) ok(what string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// must returns the result of a call, which must succeed.
func must[T any](v T, err error) func(w *dbTest, what string) T {
	return func(w *dbTest, what string) T {
		w.Helper()
		w.ok(what, err)
		return v
	}
}

// mustList is like must, for a list with its total.
func mustList[T any](page []T, total int, err error) func(w *dbTest, what string) ([]T, int) {
	return func(w *dbTest, what string) ([]T, int) {
		w.Helper()
		return must(page, err)(w, what), total
	}
}

// tokens reads tokens by id and returns them in the order of the ids.
func (w *dbTest) tokens(tenant storage.ID, ids ...string) []storage.Token {
	w.Helper()
	return w.tokensOn(w.store, tenant, ids...)
}

func (w *dbTest) tokensOn(s storage.Storage, tenant storage.ID, ids ...string) []storage.Token {
	w.Helper()
	given := slices.Clone(ids)
	got := must(s.Tokens(w.Context(), tenant, ids))(w, "tokens")
	w.same("ids after the call", ids, given)
	slices.SortFunc(got, func(a, b storage.Token) int {
		return slices.Index(ids, a.ID) - slices.Index(ids, b.ID)
	})
	return got
}

// hasTokens checks that exactly these tokens of the tenant exist, with their
// columns and the correct total.
func (w *dbTest) hasTokens(tenant storage.ID, want ...storage.Token) {
	w.Helper()
	want = slices.Clone(want)
	slices.SortFunc(want, func(a, b storage.Token) int { return compareIDs(b.Ord, a.Ord) })
	for i := range want {
		want[i].Tenant = tenant
	}
	got, total := w.list(storage.TokenFilter{Tenant: tenant, Limit: len(want) + 10, Count: true})
	w.same("tokens", got, want)
	if slices.ContainsFunc(got, func(t storage.Token) bool { return t.CVC != nil && len(t.CVC) == 0 }) {
		w.Error("the CVC of a token without one is not nil")
	}
	w.same("total", total, len(want))
}

// list returns a page of tokens.
func (w *dbTest) list(f storage.TokenFilter) ([]storage.Token, int) {
	w.Helper()
	return mustList(w.store.ListTokens(w.Context(), f))(w, "list tokens")
}

// found returns the ids of all tokens for which a condition holds, newest
// first. It also checks the total.
func (w *dbTest) found(tenant storage.ID, where storage.Cond) []string {
	w.Helper()
	page, total := w.list(storage.TokenFilter{Tenant: tenant, Where: where, Limit: 1000, Count: true})
	ids := tokenIDs(page)
	if total != len(ids) {
		w.Errorf("total is %d for the %d tokens %q", total, len(ids), ids)
	}
	return ids
}

// count returns the total of a filter.
func (w *dbTest) count(f storage.TokenFilter) int {
	w.Helper()
	f.Limit, f.Count = 1, true
	_, total := w.list(f)
	return total
}

func (w *dbTest) records(f storage.RecordFilter) ([]storage.Record, int) {
	w.Helper()
	return mustList(w.store.ListRecords(w.Context(), f))(w, "list records")
}

func (w *dbTest) logs(f storage.LogFilter) ([]storage.Log, int) {
	w.Helper()
	return mustList(w.store.ListLogs(w.Context(), f))(w, "list logs")
}

// recordsByID returns records in the order of their ids.
func (w *dbTest) recordsByID(tenant storage.ID, kind string, ids []storage.ID) []storage.Record {
	w.Helper()
	rows := must(w.store.Records(w.Context(), tenant, kind, ids))(w, "records")
	slices.SortFunc(rows, func(a, b storage.Record) int { return compareIDs(a.ID, b.ID) })
	return rows
}

// lookup returns the record with the key, or nil.
func (w *dbTest) lookup(key storage.Key) *storage.Record {
	w.Helper()
	return orNil(w.store.Lookup(w.Context(), key))(w, "lookup")
}

// orNil is like must, and returns nil for a row that does not exist.
func orNil[T any](v T, err error) func(w *dbTest, what string) *T {
	return func(w *dbTest, what string) *T {
		w.Helper()
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		w.ok(what, err)
		return &v
	}
}

// claimed returns the claim with the key, or nil.
func (w *dbTest) claimed(tenant storage.ID, key storage.Key) *storage.Claim {
	w.Helper()
	c := orNil(w.store.Claim(w.Context(), tenant, key))(w, "claim")
	if c != nil && c.Answer != nil && len(c.Answer) == 0 {
		w.Error("the answer of a claim in progress is not nil")
	}
	return c
}

// lease leases jobs to an owner until leaseEnd.
func (w *dbTest) lease(tenant, owner storage.ID, limit int) []storage.Job {
	w.Helper()
	return w.leaseAt(storage.Lease{Tenant: tenant, Owner: owner, Now: now, Until: leaseEnd, Limit: limit})
}

func (w *dbTest) leaseAt(l storage.Lease) []storage.Job {
	w.Helper()
	return must(w.store.LeaseJobs(w.Context(), l))(w, "lease jobs")
}

func (w *dbTest) dueAt(at time.Time, after storage.ID, limit int) []storage.ID {
	w.Helper()
	return must(w.store.DueTenants(w.Context(), at, after, limit))(w, "due tenants")
}

func (w *dbTest) expired(f storage.ExpiredFilter) storage.Expired {
	w.Helper()
	return must(w.store.Expired(w.Context(), f))(w, "expired")
}

// expiredAt returns all rows that have expired at a time, in the order of their ids.
func (w *dbTest) expiredAt(at time.Time) storage.Expired {
	w.Helper()
	e := w.expired(storage.ExpiredFilter{Now: at, Limit: 1000})
	for _, tokens := range [][]storage.Token{e.Tokens, e.CVCs} {
		slices.SortFunc(tokens, func(a, b storage.Token) int { return compareIDs(a.Ord, b.Ord) })
	}
	slices.SortFunc(e.Records, func(a, b storage.Record) int { return compareIDs(a.ID, b.ID) })
	return e
}

// containers returns the tenant's sets, each as one text, in order.
func (w *dbTest) containers(tenant storage.ID) []string {
	w.Helper()
	sets := must(w.store.ContainerSets(w.Context(), tenant))(w, "container sets")
	var texts []string
	for _, s := range sets {
		texts = append(texts, fmt.Sprintf("%x %s", s.Set, strings.Join(s.Containers, " ")))
	}
	scribble(reflect.ValueOf(sets))
	slices.Sort(texts)
	return texts
}

// exactly compares rows, and requires times in UTC. It ignores the hashes of
// tokens, which reads do not return, and the sequence numbers of log entries,
// which the database chooses.
var exactly = cmp.Options{
	cmpopts.IgnoreFields(storage.Token{}, "Hashes"),
	cmpopts.IgnoreFields(storage.Log{}, "Seq"),
	cmpopts.EquateComparable(storage.ID{}, storage.Hash{}, storage.Key{}, time.Time{}),
	cmpopts.EquateEmpty(),
	cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal)), // byte by byte would take long
}

// same reports an error if two values differ.
func (w *dbTest) same(what string, got, want any) {
	w.Helper()
	w.sameFor(what, nil, got, want)
}

// sameFor is like same, and includes the query in the message.
func (w *dbTest) sameFor(what string, question, got, want any) {
	w.Helper()
	if reflect.DeepEqual(want, got) || cmp.Equal(want, got, exactly) { // cmp alone takes four times as long
		return
	}
	if question != nil {
		what = fmt.Sprintf("%s of %#v", what, question)
	}
	w.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got, exactly))
}

// try runs a function concurrently for each of n numbers and returns the
// errors.
func try(n int, do func(i int) error) []error {
	errs, start, done := make([]error, n), make(chan struct{}), make(chan struct{})
	for i := range n {
		go func() {
			<-start
			errs[i] = do(i)
			done <- struct{}{}
		}()
	}
	close(start)
	for range n {
		<-done
	}
	return errs
}

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
func (w *dbTest) state(tenant storage.ID) state {
	w.Helper()
	s := state{BySet: map[storage.Hash]int{}, Sets: w.containers(tenant)}
	s.Tokens, s.Total = w.list(storage.TokenFilter{Tenant: tenant, Limit: 10_000, Count: true})
	for _, set := range sets {
		s.BySet[set.Set] = w.count(storage.TokenFilter{Tenant: tenant, Where: storage.SetIn{set.Set}})
	}
	s.Records, s.RecordN = w.records(storage.RecordFilter{Tenant: tenant, Limit: 10_000})
	s.Logs, s.LogN = w.logs(storage.LogFilter{Tenant: tenant, Limit: 10_000})
	s.Answers = w.sealed(tenant, storage.SealedClaims, 10_000)
	s.Payloads = w.sealed(tenant, storage.SealedJobs, 10_000)
	s.Due = slices.Contains(w.dueAt(now, storage.ID{}, 10_000), tenant)
	return s
}

// rows counts the rows of a state.
func (s *state) rows() int {
	return len(s.Tokens) + len(s.Records) + len(s.Logs) + len(s.Answers) + len(s.Payloads)
}

// sealed returns sealed rows in the order of their keys.
func (w *dbTest) sealed(tenant storage.ID, kind storage.SealedKind, limit int) []storage.Sealed {
	w.Helper()
	return w.sealedRows(storage.SealedFilter{Tenant: tenant, Kind: kind, Limit: limit})
}

func (w *dbTest) sealedRows(f storage.SealedFilter) []storage.Sealed {
	w.Helper()
	return must(w.store.SealedRows(w.Context(), f))(w, "sealed rows")
}

// unchanged runs a function and checks that it left the tenant as it was.
func (w *dbTest) unchanged(tenant storage.ID, do func()) {
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

// full returns a change with three rows of each kind and a claim.
func (w *dbTest) full(tenant storage.ID, prefix string) *storage.Change {
	c := &storage.Change{Tenant: tenant, Now: now, Claim: &storage.ClaimChange{Op: storage.ClaimTake, Claim: w.answered()}}
	c.InsertTokens = w.tokenSeries(prefix, 3)
	for i := range c.InsertTokens {
		c.InsertTokens[i].Dedup = w.hash()
		c.InsertRecords = append(c.InsertRecords, w.record("proxy", prefix))
		c.InsertJobs = append(c.InsertJobs, w.job(earlier))
		c.Logs = append(c.Logs, w.log("token", c.InsertTokens[i].ID))
	}
	return c
}

// busy returns a tenant with rows, and the change that wrote them.
func (w *dbTest) busy() (storage.ID, *storage.Change) {
	tenant := w.id()
	c := w.full(tenant, "old")
	w.write(c)
	return tenant, c
}
