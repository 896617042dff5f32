package erase_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a runtime whose code returns its arguments.
type echo struct{}

func (echo) Check(context.Context, script.Program) error { return nil }
func (echo) Close() error                                { return nil }

func (echo) Run(_ context.Context, _ script.Program, input json.RawMessage, _ script.Host) (json.RawMessage, error) {
	var in struct{ Args json.RawMessage }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"raw": in.Args})
}

// backends opens a storage of each kind.
var backends = map[string]func(*testing.T) (vault.Storage, error){
	"SQLite": func(t *testing.T) (vault.Storage, error) {
		return sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "v.db"))
	},
	"PostgreSQL": func(t *testing.T) (vault.Storage, error) { return postgres.Open(t.Context(), pgtest.URL(t)) },
}

// onBoth runs a test on each backend.
func onBoth(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	for name, open := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := must.Get(open(t))(t)
			test(t, newWorld(t, store))
		})
	}
}

// world is a vault whose storage can fail, and a receiver that rejects all
// callbacks.
type world struct {
	*vaulttest.Vault
	store *failing
	inbox *httptest.Server
}

func newWorld(t *testing.T, store vault.Storage) *world {
	t.Helper()
	w := &world{store: &failing{Storage: store}}
	w.store.left.Store(-1)
	w.inbox = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) }))
	t.Cleanup(w.inbox.Close)
	w.Vault = vaulttest.OpenStorage(t, w.store, &vault.Config{Runtime: echo{}, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}})
	return w
}

// failing is a storage that rejects changes after a number of changes.
type failing struct {
	vault.Storage
	left atomic.Int64 // remaining changes; negative for no limit
}

var errPower = errors.New("the power is out")

func (f *failing) Write(ctx context.Context, ch *storage.Change) error {
	if n := f.left.Load(); n == 0 {
		return errPower
	} else if n > 0 {
		f.left.Add(-1)
	}
	return f.Storage.Write(ctx, ch)
}

// jane creates tokens of Jane, and others.
func (w *world) jane(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		for _, person := range []string{"jane", "joe"} {
			must.Get(w.Owner.CreateToken(t.Context(), vault.TokenParams{
				ID: fmt.Sprintf("%s-%03d", person, i), Type: vault.TypeGeneric, Data: "secret", Metadata: map[string]string{"person": person},
			}))(t)
		}
	}
}

var janes = vault.EraseParams{Query: "metadata.person:jane", Reason: "case 4711"}

func (w *world) found(t *testing.T, query string) int {
	t.Helper()
	page := must.Get(w.Owner.SearchTokens(t.Context(), vault.SearchTokensParams{Query: query}))(t)
	return page.Pagination.TotalItems
}

func (w *world) jobs(t *testing.T) (n int) {
	t.Helper()
	for _, dead := range []bool{false, true} {
		jobs := must.Get(w.Owner.ListJobs(t.Context(), vault.ListJobsParams{Dead: dead}))(t)
		n += len(jobs)
	}
	return n
}

func (w *world) entries(t *testing.T, p vault.ListLogsParams) []vault.LogEntry {
	t.Helper()
	var all []vault.LogEntry
	for e, err := range w.Management.AllLogs(t.Context(), p) {
		must.Do(t, err)
		all = append(all, *e)
	}
	return all
}

func TestEraseDeletesFoundTokens(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		w.jane(t, 3)
		done := must.Get(w.Private.EraseTokens(t.Context(), janes))(t)
		if done.Count != 3 || done.Left != 0 || done.Reason != janes.Reason || done.ID == uuid.Nil || !done.CreatedAt.Equal(w.Clock.Now()) {
			t.Errorf("the erasure: %+v", done)
		}
		if jane, joe := w.found(t, "metadata.person:jane"), w.found(t, "metadata.person:joe"); jane != 0 || joe != 3 {
			t.Errorf("%d tokens of Jane and %d of Joe are left", jane, joe)
		}
		deleted := w.entries(t, vault.ListLogsParams{Operation: vault.OperationDelete})
		if len(deleted) != 3 || deleted[0].Message != "Token erased" || deleted[0].ActorID != w.Private.ApplicationID() {
			t.Errorf("entries of tokens: %+v", deleted)
		}
		own := w.entries(t, vault.ListLogsParams{EntityType: "erasure"})
		if len(own) != 1 || own[0].EntityID != done.ID.String() || own[0].Message != "Tokens erased: case 4711" {
			t.Errorf("entries of the erasure: %+v", own)
		}
		again, err := w.Private.EraseTokens(t.Context(), janes)
		if err != nil || again.Count != 0 || again.Left != 0 || again.ID == done.ID {
			t.Errorf("again: %+v, %v", again, err)
		}
	})
}

// kept stores a response for a request that creates a token, and for a run
// that uses one.
func (w *world) kept(t *testing.T, reactor uuid.UUID, key string) (created, ran func() error) {
	once := func(lease time.Duration, do func(context.Context, *vault.Client) (any, error)) func() error {
		return func() error {
			_, _, err := w.Private.Once(t.Context(), vault.IdempotencyKey{Scope: "test", Key: fmt.Sprint(key, lease), Lease: lease},
				func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
					out, err := do(ctx, c)
					if err != nil {
						return vault.StoredResponse{}, err
					}
					body, err := json.Marshal(out)
					return vault.StoredResponse{Status: 200, Body: body}, err
				})
			return err
		}
	}
	created = once(0, func(ctx context.Context, c *vault.Client) (any, error) {
		return c.CreateToken(ctx, vault.TokenParams{ID: key, Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{"person": strings.Split(key, "-")[0]}})
	})
	ran = once(time.Minute, func(ctx context.Context, c *vault.Client) (any, error) {
		return c.React(ctx, reactor, vault.ReactParams{Args: map[string]any{"it": "{{ " + key + " }}"}})
	})
	return created, ran
}

// queue starts an asynchronous run with a token.
func (w *world) queue(t *testing.T, reactor uuid.UUID, id string) {
	t.Helper()
	must.Get(w.Private.ReactAsync(t.Context(), reactor, vault.ReactParams{Args: map[string]any{"it": "{{ " + id + " }}"}, CallbackURL: w.inbox.URL}))(t)
}

func (w *world) reactor(t *testing.T) uuid.UUID {
	t.Helper()
	r := must.Get(w.Owner.CreateReactor(t.Context(), vault.ReactorParams{Name: "echo", Code: "x", Configuration: map[string]string{}}))(t)
	return r.ID
}

// dependents stores responses, an undelivered result and a pending job, for a
// token of each of two people.
func (w *world) dependents(t *testing.T) (responses map[string][]func() error) {
	t.Helper()
	reactor, responses := w.reactor(t), map[string][]func() error{}
	for _, person := range []string{"jane", "joe"} {
		created, ran := w.kept(t, reactor, person+"-x")
		for _, f := range []func() error{created, ran} {
			must.Do(t, f())
		}
		responses[person] = []func() error{created, ran}
		w.queue(t, reactor, person+"-x")
	}
	if err := w.Work(t.Context()); err != nil { // their results cannot be delivered
		t.Fatal(err)
	}
	w.queue(t, reactor, "jane-x")
	w.queue(t, reactor, "joe-x")
	if n := w.jobs(t); n != 4 {
		t.Fatalf("%d jobs", n)
	}
	return responses
}

// checkDependents checks that only the dependents of Jane's token were
// deleted.
func (w *world) checkDependents(t *testing.T, responses map[string][]func() error) {
	t.Helper()
	for i := range responses["jane"] {
		must.Match(t, fmt.Sprintf("response %d of Jane", i), responses["jane"][i](), vault.ErrWithdrawn)
		must.Match(t, fmt.Sprintf("response %d of Joe", i), responses["joe"][i](), nil)
	}
	must.Same(t, "jobs are left", 2, w.jobs(t))
}

func TestEraseDeletesDependents(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		responses := w.dependents(t)
		must.Get(w.Owner.EraseTokens(t.Context(), janes))(t)
		w.checkDependents(t, responses)
		if e := w.entries(t, vault.ListLogsParams{Operation: vault.OperationReact, EntityType: "reactor"}); !strings.HasPrefix(e[0].Message, "Reactor job erased") {
			t.Errorf("the newest entry of the reactor: %q", e[0].Message)
		}
	})
}

// An erasure that fails at any of its writes continues when it is repeated.
// Without a repetition, a sweep deletes the dependents of erased tokens.
func TestEraseContinuesAfterAFailure(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		w.jane(t, 250)
		failed := 0
		for n := int64(0); ; n++ {
			w.store.left.Store(n)
			_, err := w.Owner.EraseTokens(t.Context(), janes)
			w.store.left.Store(-1)
			if err == nil {
				break
			}
			if !errors.Is(err, errPower) {
				t.Fatal(err)
			}
			failed++
		}
		if w.found(t, janes.Query) != 0 || w.found(t, "metadata.person:joe") != 250 || failed < 2 {
			t.Errorf("after %d failures %d tokens are left", failed, w.found(t, janes.Query))
		}
		must.Same(t, "entries of deleted tokens", 250, len(w.entries(t, vault.ListLogsParams{Operation: vault.OperationDelete})))
	})
}

func TestSweepSettlesAnErasure(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		responses := w.dependents(t)
		w.store.left.Store(1) // only the tokens are deleted
		must.Fail(w.Owner.EraseTokens(t.Context(), janes))(t, "EraseTokens", errPower)
		w.store.left.Store(-1)
		must.Same(t, "tokens are left", 0, w.found(t, janes.Query))
		must.Same(t, "jobs before the sweep", 4, w.jobs(t))
		must.Get(w.Sweep(t.Context()))(t)
		w.checkDependents(t, responses)
		w.notes(t, 1)
		w.Clock.Advance(15 * time.Minute)
		must.Get(w.Sweep(t.Context()))(t)
		w.notes(t, 0)
	})
}

// notes checks the number of notes about erased tokens.
func (w *world) notes(t *testing.T, want int) {
	t.Helper()
	recs, _, err := w.store.ListRecords(t.Context(), storage.RecordFilter{Kind: "erasure", Limit: 10})
	if err != nil || len(recs) != want {
		t.Errorf("%d notes, want %d: %v", len(recs), want, err)
	}
}

// A call ends after 30 seconds and reports how many tokens are left.
func TestEraseHasATimeLimit(t *testing.T) {
	t.Parallel()
	store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	w := newWorld(t, store)
	w.jane(t, 450)
	slow := &slow{Storage: store, clock: w.Clock}
	w.store.Storage = slow
	slow.on.Store(true)
	done, err := w.Owner.EraseTokens(t.Context(), janes)
	if err != nil || done.Count != 200 || done.Left != 250 {
		t.Errorf("the first call: %+v, %v", done, err)
	}
	slow.on.Store(false)
	if done, err = w.Owner.EraseTokens(t.Context(), janes); err != nil || done.Count != 250 || done.Left != 0 {
		t.Errorf("the second call: %+v, %v", done, err)
	}
}

// slow is a storage whose deletions take a minute.
type slow struct {
	vault.Storage
	clock *vaulttest.Clock
	on    atomic.Bool
}

func (s *slow) Write(ctx context.Context, ch *storage.Change) error {
	if s.on.Load() && len(ch.DeleteTokens) > 0 {
		s.clock.Advance(time.Minute)
	}
	return s.Storage.Write(ctx, ch)
}

// Tokens that the caller may search but not delete are counted and stay.
func TestEraseRespectsRules(t *testing.T) {
	t.Parallel()
	w := &world{Vault: vaulttest.New(t)}
	w.jane(t, 2)
	must.Get(w.Owner.CreateToken(t.Context(), vault.TokenParams{
		ID: "jane-pii", Type: vault.TypeGeneric, Data: "x", Containers: []string{"/pii/high/"}, Metadata: map[string]string{"person": "jane"},
	}))(t)
	rules := []vault.AccessRule{
		{Priority: 1, Container: "/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:search"}},
		{Priority: 2, Container: "/general/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:delete"}},
	}
	c, _ := w.NewApplication(t, w.Owner, vault.ApplicationPrivate, rules)
	done := must.Get(c.EraseTokens(t.Context(), janes))(t)
	must.Same(t, "count and tokens left of the erasure", []any{2, 1}, []any{done.Count, done.Left})
	must.Get(w.Owner.GetToken(t.Context(), "jane-pii"))(t)
	for _, one := range rules {
		c, _ := w.NewApplication(t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{one})
		must.Fail(c.EraseTokens(t.Context(), janes))(t, fmt.Sprintf("with %v alone", one.Permissions), vault.ErrForbidden)
	}
}

func TestEraseRefusesBadInput(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for field, p := range map[string]vault.EraseParams{
		"query":  {Reason: "case"},
		"reason": {Query: "type:card"},
	} {
		wantField(t, must.Err(v.Owner.EraseTokens(t.Context(), p)), field)
	}
	for field, p := range map[string]vault.EraseParams{
		"query":  {Query: "nope:4242424242424242", Reason: "case"},
		"ids":    {IDs: []string{}, Reason: "case"},
		"reason": {Query: "type:card", Reason: strings.Repeat("é", 501)},
	} {
		_, err := v.Owner.EraseTokens(t.Context(), p)
		wantField(t, err, field)
		must.Lack(t, "a value in the error", err.Error(), "4242")
	}
	for _, p := range []vault.EraseParams{
		{IDs: make([]string, 1001), Reason: "case"}, {IDs: []string{"a"}, Query: "type:card", Reason: "case"},
	} {
		wantField(t, must.Err(v.Owner.EraseTokens(t.Context(), p)), "ids")
	}
	wantField(t, must.Err(v.Owner.EraseTokens(t.Context(), vault.EraseParams{Query: "type:card", Reason: "a\nb"})), "reason")
	if _, err := v.Owner.Masked().EraseTokens(t.Context(), vault.EraseParams{Query: "data:8726", Reason: "case"}); !errors.Is(err, vault.ErrForbidden) {
		t.Errorf("a masked client by data: %v", err)
	}
	must.Lack(t, "the query, printed", fmt.Sprintf("%v %+v %#v", janes, janes, &janes), "jane")
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *vault.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[field] == nil {
		t.Errorf("%v, want a problem with %s", err, field)
	}
}
