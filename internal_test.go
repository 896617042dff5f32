package vault

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "github.com/lib/pq" // the application's driver

	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

func TestCardDataValue(t *testing.T) {
	t.Parallel()
	for _, card := range []CardData{
		{},
		{Number: "4242424242424242"},
		{Number: "4242424242424242", ExpirationMonth: 2, ExpirationYear: 2031, CVC: "123"},
		{Number: "not \"valid\" \xff\u2028", ExpirationYear: -1, CVC: "<&>"},
	} {
		text := must.Get(json.Marshal(card))(t)
		var want, got CardData
		must.Do(t, json.Unmarshal(text, &want))
		must.Do(t, json.Unmarshal(card.value().JSON(), &got))
		if got != want {
			t.Errorf("the value of a card decodes to %+v, its JSON to %+v", got, want)
		}
		names := map[string]bool{}
		for _, m := range card.value().Members() {
			names[m.Name] = true
		}
		var members map[string]any
		must.Do(t, json.Unmarshal(text, &members))
		for name := range members {
			if !names[name] {
				t.Errorf("the value of a card has no member %s", name)
			}
		}
		must.Same(t, "the value of a card", len(members), len(names))
	}
}

// sharedDatabases open a store whose writes wait this long for a transaction, and the
// application's own connection pool to its database. Zero is the default.
var sharedDatabases = map[string]func(t *testing.T, wait time.Duration) (Storage, *sql.DB){
	"sqlite": func(t *testing.T, wait time.Duration) (Storage, *sql.DB) {
		store := must.Get(sqlite.OpenOptions(t.Context(), filepath.Join(t.TempDir(), "vault.db"), &sqlite.Options{WriteWait: wait}))(t)
		db := must.Get(store.OpenDB())(t)
		return store, db
	},
	"postgres": func(t *testing.T, wait time.Duration) (Storage, *sql.DB) {
		address := pgtest.URL(t)
		store := must.Get(postgres.OpenOptions(t.Context(), address, &postgres.Options{RetryFor: wait}))(t)
		db := must.Get(sql.Open("postgres", address))(t)
		return store, db
	},
}

// opened returns a vault without background work and without a horizon, which only
// this package can set, and its tenant.
func opened(t *testing.T, store Storage, cfg Config) (*Vault, *Owner) {
	t.Helper()
	cfg.SweepEvery, cfg.WorkEvery = -1, -1
	v := must.Get(Open(t.Context(), store, NewKey(), &cfg))(t)
	t.Cleanup(func() { _ = v.Close() })
	v.core.WaitUntil = func(context.Context, time.Time) error { return nil }
	return v, v.Tenant(must.Get(v.CreateTenant(t.Context(), "Acme"))(t).ID)
}

// sharedStore is a storage that an application can share.
type sharedStore interface {
	storage.Storage
	storage.TxStorage
}

// refusals reports the first writes that were refused.
type refusals struct {
	sharedStore
	refused chan struct{}
}

func (r *refusals) Write(ctx context.Context, ch *storage.Change) error {
	err := r.sharedStore.Write(ctx, ch)
	if errors.Is(err, storage.ErrUnavailable) {
		select {
		case r.refused <- struct{}{}:
		default:
		}
	}
	return err
}

// TestRotationWaitsForATransaction keeps a transaction open during a rotation,
// whose writes are refused several times, and reads the token afterwards.
func TestRotationWaitsForATransaction(t *testing.T) {
	t.Parallel()
	for name, open := range sharedDatabases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			shared, db := open(t, 2*time.Second) // also the time for a connection
			defer db.Close()
			store := &refusals{sharedStore: shared.(sharedStore), refused: make(chan struct{}, 2)}
			v, c := opened(t, store, Config{})
			tx := must.Get(db.BeginTx(ctx, nil))(t)
			tok := must.Get(c.InTx(tx).CreateToken(ctx, TokenParams{Type: TypeGeneric, Data: "secret"}))(t)
			var committed atomic.Bool
			early, rotated := make(chan bool, 1), make(chan error, 1)
			go func() {
				err := v.RotateDataKeys(ctx, c.TenantID(), nil)
				early <- !committed.Load()
				rotated <- err
			}()
			for range cap(store.refused) {
				select {
				case <-early:
					t.Fatal("the rotation did not wait")
				case <-store.refused:
				}
			}
			committed.Store(true)
			must.Do(t, tx.Commit())
			if <-early {
				t.Error("the rotation ended before the transaction did")
			}
			if err := <-rotated; err != nil {
				t.Fatal(err)
			}
			must.Same(t, "after the rotation", `"secret"`, string(must.Get(c.GetToken(ctx, tok.ID))(t).Data))
			state, err := v.core.Tenants.Reload(ctx, c.TenantID())
			if err != nil || state.Ring.Retired() || state.Ring.Version() != 2 {
				t.Errorf("the ring is at version %d (%v), want 2 with the old key destroyed", state.Ring.Version(), err)
			}
		})
	}
}

// TestTransactionAcrossARotation starts to write after a rotation has replaced the
// keys that this node has read. Its writes are sealed again.
func TestTransactionAcrossARotation(t *testing.T) {
	t.Parallel()
	for name, open := range sharedDatabases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			store, db := open(t, 0)
			defer db.Close()
			v, outside := opened(t, store, Config{KeyAge: 10 * time.Second})
			old := must.Get(v.core.Tenants.Get(ctx, outside.TenantID()))(t)
			must.Do(t, v.RotateDataKeys(ctx, outside.TenantID(), nil))
			tx := must.Get(db.BeginTx(ctx, nil))(t)
			defer func() { _ = tx.Rollback() }()
			op := begun(t, outside.InTx(tx).Client)
			op.State = old // as on a node that has not read the keys again
			rec := must.Get(applications.All.Create(ctx, op, &applications.Params{Name: "A", Type: string(ApplicationPrivate), Permissions: []string{string(PermissionTokenRead)}}))(t)
			must.Do(t, tx.Commit())
			must.Match(t, "what was sealed under the old keys", must.Err(outside.GetApplication(ctx, rec.ID)), nil)
		})
	}
}

// A row whose body has no digest of the columns is altered, and a search does not
// find it.
func TestColumnsNeedADigest(t *testing.T) {
	t.Parallel()
	_, c := opened(t, must.Get(sqlite.Open(t.Context(), ":memory:"))(t), Config{})
	p := TokenParams{ID: "kept", Type: TypeGeneric, Data: "x", Metadata: map[string]string{"k": "v"}}
	must.Get(c.CreateToken(t.Context(), p))(t)
	p.ID = "altered"
	must.Get(c.CreateToken(t.Context(), p))(t)
	must.Do(t, runErr(t.Context(), c.Client, &core.VerbGetToken, func(ctx context.Context, op *core.Op) error {
		return withoutDigest(ctx, op, p.ID)
	}))
	must.Fail(c.GetToken(t.Context(), p.ID))(t, "a token without a digest", fault.ErrAltered)
	page, err := c.SearchTokens(t.Context(), SearchTokensParams{Query: `metadata.k:"v"`})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "kept" {
		t.Errorf("a search finds %+v, %v", page, err)
	}
}

// withoutDigest writes a token again, without the digest of its columns and the
// hashes in its body.
func withoutDigest(ctx context.Context, op *core.Op, id string) error {
	row, err := tokens.Row(ctx, op, id)
	if err != nil {
		return err
	}
	t, err := tokens.Open(ctx, op, row)
	if err != nil {
		return err
	}
	hashes := t.Hashes
	t.Columns, t.Hashes = [16]byte{}, nil
	update := storage.TokenUpdate{Rev: row.Rev, OldSet: row.Set, Token: *row}
	for ; len(hashes) > 0; hashes = hashes[16:] {
		update.Token.Hashes = append(update.Token.Hashes, storage.Hash(hashes))
	}
	var parts seal.Parts
	location := seal.TokenLocation(row, &parts)
	if update.Token.Body, err = op.Seal(&location, t.Encode(nil)); err != nil {
		return err
	}
	ch := op.Change()
	ch.UpdateTokens = []storage.TokenUpdate{update}
	return op.Write(ctx, ch)
}

// slowStore refuses changes that were sealed under keys read before a moment,
// as a database does when ten seconds have passed since.
type slowStore struct {
	storage.Storage
	moment atomic.Pointer[time.Time]
	late   atomic.Int32
}

// tenSecondsPass makes all current work late.
func (s *slowStore) tenSecondsPass() {
	now := time.Now()
	s.moment.Store(&now)
}

func (s *slowStore) Write(ctx context.Context, ch *storage.Change) error {
	if m := s.moment.Load(); m != nil && !ch.Before.IsZero() && ch.Before.Before(m.Add(keyring.MaxAge)) {
		s.late.Add(1)
		return storage.ErrLate
	}
	return s.Storage.Write(ctx, ch)
}

// ListTokens takes longer than keys may be used.
func (s *slowStore) ListTokens(ctx context.Context, f storage.TokenFilter) ([]storage.Token, int, error) {
	rows, total, err := s.Storage.ListTokens(ctx, f)
	s.tenSecondsPass()
	return rows, total, err
}

// slow opens a vault with a tenant on a slow store.
func slow(t *testing.T, cfg Config) (*Vault, *slowStore, uuid.UUID) {
	t.Helper()
	store := &slowStore{Storage: must.Get(sqlite.Open(t.Context(), ":memory:"))(t)}
	cfg.KeyAge = time.Nanosecond
	v, c := opened(t, store, cfg)
	return v, store, c.TenantID()
}

// begun returns an operation of a client.
func begun(t *testing.T, c *Client) *core.Op {
	t.Helper()
	return must.Get(run(t.Context(), c, &core.Verb{}, func(_ context.Context, op *core.Op) (*core.Op, error) { return op, nil }))(t)
}

// prepared returns a sealed batch that creates one token.
func prepared(t *testing.T, op *core.Op, p TokenParams) *tokens.Batch {
	t.Helper()
	b, item, bad, inside := tokens.NewBatch(op, 1), &tokens.Item{}, &form.Problems{}, p.inside()
	if b.Prepare(t.Context(), item, &inside, nil, bad); bad.Any() {
		t.Fatal(bad)
	}
	must.Do(t, errors.Join(b.Add(item), b.Seal(t.Context())))
	return b
}

// A read that takes longer than keys may be used succeeds, with its log entries.
func TestSlowReadIsNotTooLate(t *testing.T) {
	t.Parallel()
	v, store, tenant := slow(t, Config{})
	c := v.Tenant(tenant)
	must.Get(c.CreateToken(t.Context(), TokenParams{Type: TypeGeneric, Data: "x"}))(t)
	page, err := c.ListTokens(t.Context(), ListTokensParams{})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("the list: %v", err)
	}
	if store.late.Load() == 0 {
		t.Error("nothing came too late, so nothing was tested")
	}
	logs := must.Get(c.ListLogs(t.Context(), ListLogsParams{EntityType: "token"}))(t)
	must.Same(t, "the log", 2, logs.Pagination.TotalItems)
}

// A write that was sealed too long ago is sealed again, even if a rotation has
// replaced the key.
func TestSlowWriteIsSealedAgain(t *testing.T) {
	t.Parallel()
	for name, rotates := range map[string]bool{"slow": false, "slow, and a rotation": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, store, tenant := slow(t, Config{})
			ctx := t.Context()
			op := begun(t, v.Tenant(tenant).Client)
			b := prepared(t, op, TokenParams{ID: "late", Type: TypeCard, Data: CardData{Number: "4242424242424242", CVC: "987"}})
			if rotates {
				must.Do(t, v.RotateDataKeys(ctx, tenant, nil))
			}
			store.tenSecondsPass()
			if err := b.Save(ctx); err != nil || store.late.Load() == 0 {
				t.Fatalf("%v, and %d late", err, store.late.Load())
			}
			tok := must.Get(v.Tenant(tenant).GetToken(ctx, "late"))(t)
			must.Same(t, "the token", `{"number":"4242424242424242","cvc":"987"}`, string(tok.Data))
		})
	}
}

// refusingStore fails the first creates.
type refusingStore struct {
	storage.Storage
	errs   []error
	before func() // called before the first failure
}

func (s *refusingStore) Write(ctx context.Context, ch *storage.Change) error {
	if len(ch.InsertTokens) == 0 || len(s.errs) == 0 {
		return s.Storage.Write(ctx, ch)
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	if s.before != nil {
		s.before()
		s.before = nil
	}
	return err
}

// A batch that is late, sealed again, and then refused because of an id is written
// under the newest keys, with all its tokens.
func TestRefusedBatchIsSealedUnderNewKeys(t *testing.T) {
	t.Parallel()
	db := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	store := &refusingStore{Storage: db}
	v, c := opened(t, store, Config{})
	store.errs = []error{storage.ErrLate, &storage.Conflict{Kind: storage.TokenIDTaken, Index: 1}}
	store.before = func() {
		must.Match(t, "rotate", v.RotateDataKeys(t.Context(), c.TenantID(), nil), nil)
	}
	out := must.Get(c.Tokenize(t.Context(), []string{"a", "b", "c"}))(t)
	var ids []string
	must.Do(t, out.Decode(&ids))
	for _, id := range ids {
		row, err := db.Tokens(t.Context(), storage.ID(c.TenantID()), []string{id})
		if err != nil || len(row) != 1 || row[0].KeyVersion != 2 {
			t.Errorf("%s: %v, and sealed under another key than 2", id, err)
			continue
		}
		must.Match(t, id, must.Err(c.GetToken(t.Context(), id)), nil)
	}
}

// slowRuntime takes longer to check code than keys may be used unread.
type slowRuntime struct {
	Runtime
	during func()
}

func (r *slowRuntime) Check(context.Context, script.Program) error { r.during(); return nil }
func (r *slowRuntime) Close() error                                { return nil }

// Code whose check takes long is stored all the same.
func TestSlowCheckOfCodeIsNotTooLate(t *testing.T) {
	t.Parallel()
	runtime := &slowRuntime{}
	v, store, tenant := slow(t, Config{Runtime: runtime})
	c := v.Tenant(tenant)
	runtime.during = store.tenSecondsPass
	configuration := map[string]string{}
	r := must.Get(c.CreateReactor(t.Context(), ReactorParams{Name: "r", Code: "x", Configuration: configuration}))(t)
	if _, err := c.ReplaceReactor(t.Context(), r.ID, ReactorParams{Name: "r", Code: "y", Configuration: configuration}); err != nil {
		t.Errorf("replace: %v", err)
	}
	code := &ProxyTransform{Code: "x"}
	if _, err := c.CreateProxy(t.Context(), ProxyParams{Name: "p", DestinationURL: "https://example.com/", RequestTransform: code, ResponseTransform: code}); err != nil {
		t.Errorf("proxy: %v", err)
	}
}

// slowWork writes everything that can be sealed through a client, and then calls a
// function of the test.
func slowWork(reactor uuid.UUID, then func(*core.Pending) error) func(context.Context, *Owner) (StoredResponse, error) {
	return func(ctx context.Context, c *Owner) (StoredResponse, error) {
		_, err := c.CreateToken(ctx, TokenParams{ID: "made", Type: TypeCard, Data: CardData{Number: "4242424242424242", CVC: "987"}})
		if err != nil {
			return StoredResponse{}, err
		}
		app, err := c.CreateApplication(ctx, ApplicationParams{Name: "new", Type: ApplicationPrivate, Permissions: []Permission{"token:read"}})
		if err != nil {
			return StoredResponse{}, err
		}
		if _, err := c.ReactAsync(ctx, reactor, ReactParams{CallbackURL: "https://example.com/"}); err != nil {
			return StoredResponse{}, err
		}
		return StoredResponse{Status: 200, Body: []byte(app.Key)}, then(core.CallerOf(c).Pending())
	}
}

// Work that takes longer than its keys may be used still succeeds, because work
// with effects outside the database cannot be repeated.
func TestHeldWritesAreNotTooLate(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"at once": 0, "leased": time.Hour} {
		for what, rotates := range map[string]bool{"slow work": false, "slow work and a rotation": true} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				heldWorkSurvives(t, lease, rotates)
			})
		}
	}
}

func heldWorkSurvives(t *testing.T, lease time.Duration, rotates bool) {
	t.Helper()
	ctx := t.Context()
	v, _, tenant := slow(t, Config{})
	c := v.Tenant(tenant)
	reactor := must.Get(c.CreateReactor(ctx, ReactorParams{Name: "r", Code: "x", Configuration: map[string]string{}}))(t)
	runs := 0
	work := slowWork(reactor.ID, func(h *core.Pending) error {
		if runs++; runs > 1 {
			return errors.New("the work is done again")
		}
		for _, ch := range h.Changes() {
			ch.Before = time.Now().Add(-time.Second) // as after ten seconds of work
		}
		if rotates {
			return v.RotateDataKeys(ctx, tenant, nil)
		}
		return nil
	})
	a, _, err := c.Once(ctx, IdempotencyKey{Key: "k", Lease: lease}, work)
	must.Do(t, err)
	tok := must.Get(c.GetToken(ctx, "made"))(t)
	must.Same(t, "the token that was made", `{"number":"4242424242424242","cvc":"987"}`, string(tok.Data))
	must.Match(t, "the application", must.Err(v.Authenticate(ctx, string(a.Body))), nil)
	if _, replayed, err := c.Once(ctx, IdempotencyKey{Key: "k", Lease: lease}, work); err != nil || !replayed {
		t.Errorf("the response: replayed %v, %v", replayed, err)
	}
	// A rotation opens every sealed row, including the job.
	must.Match(t, "the rotation after it", v.RotateDataKeys(ctx, tenant, nil), nil)
}

// Changes of rows are not too late either if only a rotation has changed the rows.
func TestHeldUpdatesAreNotTooLate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v, _, tenant := slow(t, Config{})
	c := v.Tenant(tenant)
	must.Get(c.CreateToken(ctx, TokenParams{ID: "there", Type: TypeGeneric, Data: "x"}))(t)
	_, _, err := c.Once(ctx, IdempotencyKey{Key: "k", Lease: time.Hour}, func(ctx context.Context, c *Owner) (StoredResponse, error) {
		_, err := c.PatchToken(ctx, "there", JSON(`{"data":"changed"}`))
		for _, ch := range core.CallerOf(c).Pending().Changes() {
			ch.Before = time.Now().Add(-time.Second)
		}
		return StoredResponse{Status: 200}, err
	})
	must.Do(t, err)
	must.Same(t, "the token", `"changed"`, string(must.Get(c.GetToken(ctx, "there"))(t).Data))
}

// leased returns a vault without a horizon, and a job of a tenant that its
// worker holds. The job's reactor panics when it is run.
func leased(t *testing.T, payload runs.Job) (*Vault, uuid.UUID, storage.Job) {
	t.Helper()
	ctx := t.Context()
	store := must.Get(sqlite.Open(ctx, ":memory:"))(t)
	v, c := opened(t, store, Config{Runtime: panicking{}, Egress: EgressPolicy{AllowHTTP: true, AllowPrivate: true}})
	op := begun(t, c.Client)
	r := must.Get(c.CreateReactor(ctx, ReactorParams{Name: "Panics", Code: "x", Configuration: map[string]string{}}))(t)
	caller := op.Identity
	if payload.Caller.Masked {
		caller = caller.Masked()
	}
	payload.Reactor, payload.Caller = r.ID, caller.Stored()
	job := must.Get(runs.Seal(op, storage.Job{ID: storage.ID(op.NewID()), Kind: runs.Kind, RunAt: op.Now}, &payload))(t)
	ch := op.Change()
	ch.InsertJobs = []storage.Job{job}
	must.Do(t, store.Write(ctx, ch))
	return v, c.TenantID(), lease(t, v, c.TenantID())
}

// panicking is a runtime that panics.
type panicking struct{}

func (panicking) Check(context.Context, script.Program) error { return nil }
func (panicking) Close() error                                { return nil }
func (panicking) Run(context.Context, script.Program, json.RawMessage, script.Host) (json.RawMessage, error) {
	panic("4242424242424242")
}

// lease takes the one job that is due.
func lease(t *testing.T, v *Vault, tenant uuid.UUID) storage.Job {
	t.Helper()
	now := v.core.Now()
	jobs, err := v.store.LeaseJobs(t.Context(), storage.Lease{Tenant: storage.ID(tenant), Owner: storage.ID(uuid.New()), Now: now, Until: now.Add(runs.JobLease), Limit: 2})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	return jobs[0]
}

// A job that runs during a rotation stays readable: extending its lease never
// restores what was sealed under the old key.
func TestLeaseOutlivesARotation(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, renewals := range map[string]bool{"renewed meanwhile": true, "not renewed in time": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, tenant, job := leased(t, runs.Job{CallbackURL: "https://example.com/"})
			progress := func(int, int) {
				if err := v.runs.Extend(ctx, &job); renewals && err != nil {
					t.Errorf("a longer lease during the rotation: %v", err)
				}
			}
			if !renewals {
				progress = nil
			}
			must.Do(t, v.RotateDataKeys(ctx, tenant, &RotateOptions{Progress: progress}))
			if err := v.runs.Extend(ctx, &job); renewals != (err == nil) || !renewals && !errors.Is(err, seal.ErrNoKey) {
				t.Errorf("a longer lease after the rotation: %v", err)
			}
			left, err := v.store.SealedRows(ctx, storage.SealedFilter{Tenant: storage.ID(tenant), Kind: storage.SealedJobs, Limit: 10})
			if err != nil || slices.ContainsFunc(left, func(s storage.Sealed) bool { return s.KeyVersion < 2 }) {
				t.Errorf("jobs are sealed under a destroyed key: %v, %v", left, err)
			}
		})
	}
}

// A callback that is acknowledged late still counts as delivered.
func TestSlowReceiverIsCalledOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var late func()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { late() }))
	defer receiver.Close()
	v, tenant, job := leased(t, runs.Job{CallbackURL: receiver.URL, Result: json.RawMessage(`{"raw":1}`)})
	state := must.Get(v.core.Tenants.Reload(ctx, tenant))(t)
	late = func() { state.ReadAt = state.ReadAt.Add(-keyring.MaxAge - time.Second) } // as if the receiver were slow
	must.Match(t, "delivered, but not deleted", v.runs.CarryOut(ctx, &job), nil)
}

// unsureStore applies a change and reports that the outcome is unknown, like a
// server that continues a statement after its connection was closed.
type unsureStore struct {
	storage.Storage
	armed atomic.Bool
	entry atomic.Pointer[storage.ID] // of the change that it did so with
	after func()                     // called then, if not nil
	down  bool                       // no records can be read
}

func (s *unsureStore) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	if s.down {
		return nil, storage.ErrUnavailable
	}
	return s.Storage.Records(ctx, tenant, kind, ids)
}

func (s *unsureStore) Write(ctx context.Context, ch *storage.Change) error {
	if first := s.entry.Load(); first != nil && ch.Unsure && ch.Logs[0].ID == *first {
		return nil // the change is found by its log entry
	}
	err := s.Storage.Write(ctx, ch)
	if err == nil && s.armed.CompareAndSwap(true, false) {
		s.entry.Store(&ch.Logs[0].ID)
		ch.Unsure = true
		if s.after != nil {
			s.after()
		}
		return storage.ErrLate
	}
	return err
}

// A create with an unknown outcome that outlives its keys is sealed again as the
// same change, so it is made once.
func TestUnsureCreateIsMadeOnce(t *testing.T) {
	t.Parallel()
	store := &unsureStore{Storage: must.Get(sqlite.Open(t.Context(), ":memory:"))(t)}
	_, c := opened(t, store, Config{})
	store.armed.Store(true)
	tok := must.Get(c.CreateToken(t.Context(), TokenParams{Type: TypeGeneric, Data: "x"}))(t)
	page := must.Get(c.ListTokens(t.Context(), ListTokensParams{}))(t)
	must.Same(t, "tokens", 1, page.Pagination.TotalItems)
	must.Same(t, "the token", tok.ID, page.Data[0].ID)
}

// A caller that leaves while the outcome of its change is unknown gets the outcome. If
// the outcome stays unknown, the error reports that the change may have been applied.
func TestUnsureCreateOfACallerWhoLeaves(t *testing.T) {
	t.Parallel()
	store := &unsureStore{Storage: must.Get(sqlite.Open(t.Context(), ":memory:"))(t)}
	_, c := opened(t, store, Config{})
	create := func(id string) error {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		store.after = leave
		store.armed.Store(true)
		return must.Err(c.CreateToken(ctx, TokenParams{ID: id, Type: TypeGeneric, Data: "x"}))
	}
	must.Do(t, create("found"))
	must.Get(c.GetToken(t.Context(), "found"))(t)
	ctx := t.Context()
	store.armed.Store(true)
	store.after = func() { store.down = true }
	err := must.Err(c.CreateToken(ctx, TokenParams{ID: "unknown", Type: TypeGeneric, Data: "x"}))
	must.Match(t, "a change whose outcome is unknown", err, ErrUnavailable)
	must.Match(t, "a change whose outcome is unknown", err, must.Text("may or may not have been applied"))
}

// A run that a masked client queues stays masked: it never sees plaintext, and does
// not search by data.
func TestMaskedRunStaysMasked(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v, tenant, job := leased(t, runs.Job{CallbackURL: "https://example.com/", Args: json.RawMessage(`{"card":"{{ card }}"}`), Caller: core.Stored{Masked: true}})
	owner := v.Tenant(tenant)
	must.Get(owner.CreateToken(ctx, TokenParams{ID: "card", Type: TypeCardNumber, Data: "4242424242424242", SearchIndexes: []string{"{{ data }}"}}))(t)
	must.Do(t, v.runs.CarryOut(ctx, &job))
	jobs, err := owner.ListJobs(ctx, ListJobsParams{})
	if err != nil || len(jobs) != 1 || jobs[0].Ran.Status != http.StatusForbidden {
		t.Errorf("the run: %+v, %v, want the status 403", jobs, err)
	}
	// The same identity, as the run has it.
	stored := begun(t, owner.Masked()).Stored()
	id := must.Get(stored.Identity(tenant))(t)
	run := owner.as(id)
	if _, err := run.SearchTokens(ctx, SearchTokensParams{Query: "data:4242424242424242"}); !errors.Is(err, ErrForbidden) {
		t.Errorf("a search by data: %v", err)
	}
	tok := must.Get(run.GetToken(ctx, "card"))(t)
	must.Same(t, "it reads", `"XXXXXXXXXXXX4242"`, string(tok.Data))
}

// SetNotePace changes the least time between two notes of a vault with evidence.
func SetNotePace(v *Vault, d time.Duration) { v.evidence.SetPace(d) }
