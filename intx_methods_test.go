package vault_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// inTxCase is a call of a method in a transaction. It fails when the method does
// not see what the transaction has written.
type inTxCase struct {
	method string
	call   func(ctx context.Context, f *inTxFixture) error
}

// inTxFixture is what a transaction has made, and no other sees.
type inTxFixture struct {
	tx              *sql.Tx
	owner           *vault.Owner
	public, private *vault.Client
	app, spare      *vault.Application
	reactor         *vault.Reactor
	proxy           *vault.Proxy
	session         *vault.Session
}

func newInTxFixture(t *testing.T, s *shop) *inTxFixture {
	t.Helper()
	ctx, tx := t.Context(), s.begin(t)
	f := &inTxFixture{tx: tx, owner: s.Owner.InTx(tx), public: s.Public.InTx(tx)}
	create(t, f.owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCardNumber, Data: visa, Metadata: map[string]string{"order": "7"}, Containers: []string{"/new/"}})
	create(t, f.owner.Client, aCard("other"))
	var err [7]error
	f.app, err[0] = f.owner.CreateApplication(ctx, anApplication("App"))
	f.spare, err[1] = f.owner.CreateApplication(ctx, anApplication("Spare"))
	f.private, err[2] = f.owner.As(ctx, f.app.ID)
	f.reactor, err[3] = f.owner.CreateReactor(ctx, aReactor("Reactor"))
	f.proxy, err[4] = f.owner.CreateProxy(ctx, aProxy("Proxy"))
	f.session, err[5] = f.public.CreateSession(ctx)
	_, err[6] = f.public.CreateSession(ctx)
	if err := errors.Join(err[:]...); err != nil {
		t.Fatal(err)
	}
	return f
}

func anApplication(name string) vault.ApplicationParams {
	return vault.ApplicationParams{Name: name, Type: vault.ApplicationPrivate, Permissions: everything}
}

func aReactor(name string) vault.ReactorParams {
	return vault.ReactorParams{Name: name, Code: "module.exports = r => r", Configuration: map[string]string{}}
}

func aProxy(name string) vault.ProxyParams {
	return vault.ProxyParams{Name: name, DestinationURL: "https://example.com"}
}

// count fails unless a list has so many items.
func count[T any](want int, all iter.Seq2[T, error]) error {
	n := 0
	for _, err := range all {
		if err != nil {
			return err
		}
		n++
	}
	return number(want, n)
}

func number(want, got int) error {
	if got != want {
		return fmt.Errorf("got %d, want %d", got, want)
	}
	return nil
}

// pageOf fails unless a page has so many items.
func pageOf[T any](want int) func(*vault.Page[T], error) error {
	return func(page *vault.Page[T], err error) error {
		if err != nil {
			return err
		}
		return number(want, len(page.Data))
	}
}

// is fails unless an id is the one that it must be.
func is[T comparable](want, got T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// TestEveryMethodInATransaction calls every method of a client in a transaction,
// on what only the transaction can see. A rollback leaves nothing of it.
func TestEveryMethodInATransaction(t *testing.T) {
	t.Parallel()
	works := slices.Concat(inTxTokens, inTxIdentities, inTxAdmin)
	untried := map[string]bool{}
	for i := range reflect.TypeFor[*vault.Client]().NumMethod() {
		untried[reflect.TypeFor[*vault.Client]().Method(i).Name] = true
	}
	for _, c := range slices.Concat(works, notInTx) {
		delete(untried, c.method)
	}
	for _, does := range []string{"TenantID", "ApplicationID", "Masked", "From"} { // nothing
		delete(untried, does)
	}
	if len(untried) > 0 {
		t.Errorf("not tried: %v", untried)
	}
	inShops(t, nil, func(t *testing.T, s *shop) {
		before, entries := inVault(t, s)
		f := newInTxFixture(t, s)
		for _, c := range notInTx {
			if err := c.call(t.Context(), f); !errors.Is(err, vault.ErrInTx) || !strings.Contains(err.Error(), c.method) {
				t.Errorf("%s: got %v, want ErrInTx", c.method, err)
			}
		}
		for _, c := range works {
			if err := c.call(t.Context(), f); err != nil {
				t.Errorf("%s: %v", c.method, err)
			}
		}
		rollback(t, f.tx)
		if after, logged := inVault(t, s); after != before || logged != entries {
			t.Errorf("after the rollback: %v and %d entries, want %v and %d", after, logged, before, entries)
		}
	})
}

// inVault returns how many tokens, applications, reactors, proxies and sessions
// there are, and how many entries say that something was written.
func inVault(t *testing.T, s *shop) (things [5]int, entries int) {
	t.Helper()
	ctx := t.Context()
	n := func(i int, total int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		things[i] = total
	}
	for _, err := range s.Owner.AllLogs(ctx, vault.LogFilter{Operation: vault.OperationCreate}) {
		if err != nil {
			t.Fatal(err)
		}
		entries++
	}
	tokens, err := s.Owner.ListTokens(ctx, vault.ListTokensParams{})
	n(0, tokens.Pagination.TotalItems, err)
	apps, err := s.Owner.ListApplications(ctx, vault.ListApplicationsParams{})
	n(1, apps.Pagination.TotalItems, err)
	reactors, err := s.Owner.ListReactors(ctx, vault.ListReactorsParams{})
	n(2, reactors.Pagination.TotalItems, err)
	proxies, err := s.Owner.ListProxies(ctx, vault.ListProxiesParams{})
	n(3, proxies.Pagination.TotalItems, err)
	sessions, err := s.Owner.ListSessions(ctx, vault.ListSessionsParams{})
	n(4, sessions.Pagination.TotalItems, err)
	return things, entries
}

// TestWhatATransactionMadeWorksAfterIt uses keys that were made in a transaction.
func TestWhatATransactionMadeWorksAfterIt(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		f := newInTxFixture(t, s)
		err := f.private.AuthorizeSession(t.Context(), vault.SessionGrant{Nonce: f.session.Nonce, Permissions: []vault.Permission{"token:create"}})
		if err != nil {
			t.Fatal(err)
		}
		commit(t, f.tx)
		get(t, authenticated(t, s.Vault.Vault, f.app.Key), "card")
		create(t, authenticated(t, s.Vault.Vault, f.session.SessionKey), aCard("by-session"))
		if r, err := s.Management.GetReactor(t.Context(), f.reactor.ID); err != nil || r.Name != "Reactor" {
			t.Errorf("the reactor: %v", err)
		}
	})
}

// TestInTxInsideOnce cannot be: Once has a commit of its own.
func TestInTxInsideOnce(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		_, _, err := s.Owner.Once(t.Context(), vault.IdempotencyKey{Key: "k"}, func(ctx context.Context, c *vault.Owner) (vault.StoredResponse, error) {
			tx, err := s.other(t).BeginTx(ctx, nil)
			if err != nil {
				return vault.StoredResponse{}, err
			}
			defer func() { _ = tx.Rollback() }()
			_, err = c.InTx(tx).CreateToken(ctx, aCard("other"))
			return vault.StoredResponse{}, err
		})
		if !errors.Is(err, vault.ErrInTx) {
			t.Errorf("got %v, want ErrInTx", err)
		}
	})
}

// inTxTokens are calls about tokens, in an order that lets each find what it
// needs. There are two of them at first.
var inTxTokens = []inTxCase{
	{"GetToken", func(ctx context.Context, f *inTxFixture) error { _, err := f.private.GetToken(ctx, "card"); return err }},
	{"PatchToken", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.private.PatchToken(ctx, "card", vault.JSON(`{"metadata":{"order":"8"}}`))
		return err
	}},
	{"ListTokens", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.Token](2)(f.private.ListTokens(ctx, vault.ListTokensParams{}))
	}},
	{"AllTokens", func(ctx context.Context, f *inTxFixture) error {
		return count(2, f.private.AllTokens(ctx, vault.TokenFilter{}))
	}},
	{"ListTokensAfter", func(ctx context.Context, f *inTxFixture) error {
		p := vault.ListTokensParams{PageParams: vault.PageParams{Size: 1}}
		first, err := f.private.ListTokensAfter(ctx, p, "")
		if err != nil {
			return err
		}
		next, err := f.private.ListTokensAfter(ctx, p, first.Pagination.After)
		if err != nil || len(next.Data) != 1 || next.Data[0].ID != "card" {
			return fmt.Errorf("the second page does not have the card: %w", err)
		}
		return nil
	}},
	{"SearchTokens", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.Token](1)(f.private.SearchTokens(ctx, vault.SearchTokensParams{Query: "metadata.order:8 AND container:/new/"}))
	}},
	{"SearchTokensAfter", func(ctx context.Context, f *inTxFixture) error {
		page, err := f.private.SearchTokensAfter(ctx, vault.SearchTokensParams{Query: "type:card_number"}, "")
		if err != nil {
			return err
		}
		return number(2, len(page.Data))
	}},
	{"SearchAllTokens", func(ctx context.Context, f *inTxFixture) error {
		return count(1, f.private.SearchAllTokens(ctx, "metadata.order:8"))
	}},
	{"Detokenize", func(ctx context.Context, f *inTxFixture) error {
		doc, err := f.owner.Detokenize(ctx, "{{ card }}")
		if err == nil && string(doc) != `"`+visa+`"` {
			err = errors.New("it is another document")
		}
		return err
	}},
	{"Tokenize", func(ctx context.Context, f *inTxFixture) error { _, err := f.private.Tokenize(ctx, "x"); return err }},
	{"CreateToken", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.private.CreateToken(ctx, aCard("third"))
		return err
	}},
	{"InTx", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.InTx(f.tx).GetToken(ctx, "card")
		return err
	}},
	{"AsUser", func(ctx context.Context, f *inTxFixture) error {
		if err := f.private.AsUser("jane@example.com").DeleteToken(ctx, "other"); err != nil {
			return err
		}
		page, err := f.owner.ListLogs(ctx, vault.ListLogsParams{EntityID: "other", Operation: vault.OperationDelete})
		if err == nil && (len(page.Data) != 1 || page.Data[0].ActorName != "jane@example.com") {
			err = errors.New("the entry does not name the user")
		}
		return err
	}},
	{"DeleteToken", func(ctx context.Context, f *inTxFixture) error { return f.private.DeleteToken(ctx, "third") }},
}

// inTxIdentities are calls about keys, applications and sessions.
var inTxIdentities = []inTxCase{
	{"HasPermission", func(ctx context.Context, f *inTxFixture) error { return f.private.HasPermission(ctx, "token:read") }},
	{"As", func(ctx context.Context, f *inTxFixture) error { _, err := f.owner.As(ctx, f.app.ID); return err }},
	{"ListPermissions", func(ctx context.Context, f *inTxFixture) error { _, err := f.private.ListPermissions(ctx); return err }},
	{"Explain", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.Explain(ctx, vault.ExplainParams{ApplicationID: f.app.ID, Permission: "token:read", TokenID: "card"})
		return err
	}},
	{"OwnApplication", func(ctx context.Context, f *inTxFixture) error {
		app, err := f.private.OwnApplication(ctx)
		if err != nil {
			return err
		}
		return is(f.app.ID, app.ID)
	}},
	{"GetApplication", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.GetApplication(ctx, f.app.ID)
		return err
	}},
	{"ListApplications", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.Application](1)(f.owner.ListApplications(ctx, vault.ListApplicationsParams{Name: "App"}))
	}},
	{"AllApplications", func(ctx context.Context, f *inTxFixture) error {
		return count(1, f.owner.AllApplications(ctx, vault.ApplicationFilter{Name: "App"}))
	}},
	{"ApplyApplication", func(ctx context.Context, f *inTxFixture) error {
		return appliedOnce(func(name string) (*vault.Applied[vault.Application], error) {
			return f.owner.ApplyApplication(ctx, anApplication(name))
		}, func() error {
			p := anApplication("Applied")
			p.ExpiresAt = time.Now().Add(48 * time.Hour)
			got, err := f.owner.ApplyApplication(ctx, p)
			if err != nil {
				return err
			}
			return is(vault.ApplyChanged, got.Action)
		})
	}},
	{"EnsureApplication", func(ctx context.Context, f *inTxFixture) error {
		return ensured(f.app, "App", func(x *vault.Application) uuid.UUID { return x.ID }, func(name string) (*vault.Application, error) {
			return f.owner.EnsureApplication(ctx, anApplication(name))
		})
	}},
	{"ReplaceApplication", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ReplaceApplication(ctx, f.spare.ID, anApplication("Replaced"))
		return err
	}},
	{"PatchApplication", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.PatchApplication(ctx, f.spare.ID, vault.JSON(`{"name":"Patched"}`))
		return err
	}},
	{"RegenerateKey", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.RegenerateKey(ctx, f.spare.ID)
		return err
	}},
	{"CreateApplication", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.CreateApplication(ctx, anApplication("Another"))
		return err
	}},
	{"DeleteApplication", func(ctx context.Context, f *inTxFixture) error { return f.owner.DeleteApplication(ctx, f.spare.ID) }},
	{"CreateSession", func(ctx context.Context, f *inTxFixture) error { _, err := f.public.CreateSession(ctx); return err }},
	{"AuthorizeSession", func(ctx context.Context, f *inTxFixture) error {
		return f.private.AuthorizeSession(ctx, vault.SessionGrant{Nonce: f.session.Nonce, Permissions: []vault.Permission{"token:create"}})
	}},
	{"ListSessions", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.SessionInfo](3)(f.owner.ListSessions(ctx, vault.ListSessionsParams{}))
	}},
	{"AllSessions", func(ctx context.Context, f *inTxFixture) error {
		return count(3, f.owner.AllSessions(ctx))
	}},
	{"DeleteSession", func(ctx context.Context, f *inTxFixture) error {
		page, err := f.owner.ListSessions(ctx, vault.ListSessionsParams{})
		if err != nil {
			return err
		}
		return f.owner.DeleteSession(ctx, page.Data[0].ID)
	}},
}

// appliedOnce creates something, applies it again, and then changes it.
func appliedOnce[T any](apply func(name string) (*vault.Applied[T], error), change func() error) error {
	made, errMade := apply("Applied")
	again, errAgain := apply("Applied")
	if err := errors.Join(errMade, errAgain); err != nil {
		return err
	}
	return errors.Join(is(vault.ApplyCreated, made.Action), is(vault.ApplyUnchanged, again.Action), change())
}

// ensured finds what is there by its name, and makes what is not, once.
func ensured[T any](there *T, name string, id func(*T) uuid.UUID, ensure func(name string) (*T, error)) error {
	found, err := ensure(name)
	made, errMade := ensure("Ensured")
	again, errAgain := ensure("Ensured")
	if err := errors.Join(err, errMade, errAgain); err != nil {
		return err
	}
	return errors.Join(is(id(there), id(found)), is(id(made), id(again)))
}

// inTxAdmin are calls about reactors, proxies and the log.
var inTxAdmin = []inTxCase{
	{"GetReactor", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.GetReactor(ctx, f.reactor.ID)
		return err
	}},
	{"ListReactors", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.Reactor](1)(f.owner.ListReactors(ctx, vault.ListReactorsParams{}))
	}},
	{"AllReactors", func(ctx context.Context, f *inTxFixture) error {
		return count(1, f.owner.AllReactors(ctx, vault.ReactorFilter{}))
	}},
	{"ApplyReactor", func(ctx context.Context, f *inTxFixture) error {
		return appliedOnce(func(name string) (*vault.Applied[vault.Reactor], error) {
			return f.owner.ApplyReactor(ctx, aReactor(name))
		}, func() error {
			p := aReactor("Applied")
			p.Configuration = map[string]string{"a": "b"}
			got, err := f.owner.ApplyReactor(ctx, p)
			if err != nil {
				return err
			}
			return is(vault.ApplyChanged, got.Action)
		})
	}},
	{"EnsureReactor", func(ctx context.Context, f *inTxFixture) error {
		return ensured(f.reactor, "Reactor", func(x *vault.Reactor) uuid.UUID { return x.ID }, func(name string) (*vault.Reactor, error) {
			return f.owner.EnsureReactor(ctx, aReactor(name))
		})
	}},
	{"CreateReactor", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.CreateReactor(ctx, aReactor("Another"))
		return err
	}},
	{"ReplaceReactor", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ReplaceReactor(ctx, f.reactor.ID, aReactor("Replaced"))
		return err
	}},
	{"PatchReactor", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.PatchReactor(ctx, f.reactor.ID, vault.JSON(`{"name":"Patched"}`))
		return err
	}},
	{"DeleteReactor", func(ctx context.Context, f *inTxFixture) error { return f.owner.DeleteReactor(ctx, f.reactor.ID) }},
	{"GetProxy", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.GetProxy(ctx, f.proxy.ID)
		return err
	}},
	{"ListProxies", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.Proxy](1)(f.owner.ListProxies(ctx, vault.ListProxiesParams{}))
	}},
	{"AllProxies", func(ctx context.Context, f *inTxFixture) error {
		return count(1, f.owner.AllProxies(ctx, vault.ProxyFilter{}))
	}},
	{"ApplyProxy", func(ctx context.Context, f *inTxFixture) error {
		return appliedOnce(func(name string) (*vault.Applied[vault.Proxy], error) { return f.owner.ApplyProxy(ctx, aProxy(name)) }, func() error {
			p := aProxy("Applied")
			p.Configuration = map[string]string{"a": "b"}
			got, err := f.owner.ApplyProxy(ctx, p)
			if err != nil {
				return err
			}
			return is(vault.ApplyChanged, got.Action)
		})
	}},
	{"EnsureProxy", func(ctx context.Context, f *inTxFixture) error {
		return ensured(f.proxy, "Proxy", func(x *vault.Proxy) uuid.UUID { return x.ID }, func(name string) (*vault.Proxy, error) {
			return f.owner.EnsureProxy(ctx, aProxy(name))
		})
	}},
	{"CreateProxy", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.CreateProxy(ctx, aProxy("Another"))
		return err
	}},
	{"ReplaceProxy", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ReplaceProxy(ctx, f.proxy.ID, aProxy("Replaced"))
		return err
	}},
	{"PatchProxy", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.PatchProxy(ctx, f.proxy.ID, vault.JSON(`{"name":"Patched"}`))
		return err
	}},
	{"DeleteProxy", func(ctx context.Context, f *inTxFixture) error { return f.owner.DeleteProxy(ctx, f.proxy.ID) }},
	{"ListEntityTypes", func(ctx context.Context, f *inTxFixture) error { _, err := f.owner.ListEntityTypes(ctx); return err }},
	{"ListLogs", func(ctx context.Context, f *inTxFixture) error {
		return pageOf[vault.LogEntry](1)(f.owner.ListLogs(ctx, vault.ListLogsParams{EntityID: f.proxy.ID.String(), Operation: vault.OperationDelete}))
	}},
	{"AllLogs", func(ctx context.Context, f *inTxFixture) error {
		return count(1, f.owner.AllLogs(ctx, vault.LogFilter{EntityID: f.reactor.ID.String(), Operation: vault.OperationDelete}))
	}},
}

// notInTx are calls that cannot be part of a transaction.
var notInTx = []inTxCase{
	{"LogCheckpoint", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.LogCheckpoint(ctx)
		return err
	}},
	{"LogProof", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.LogProof(ctx, f.app.ID)
		return err
	}},
	{"LogConsistency", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.LogConsistency(ctx, 0)
		return err
	}},
	{"ExportEvidence", func(ctx context.Context, f *inTxFixture) error { return f.owner.ExportEvidence(ctx, io.Discard) }},
	{"ListJobs", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ListJobs(ctx, vault.ListJobsParams{})
		return err
	}},
	{"RetryJob", func(ctx context.Context, f *inTxFixture) error { return f.owner.RetryJob(ctx, f.app.ID) }},
	{"DiscardJob", func(ctx context.Context, f *inTxFixture) error { return f.owner.DiscardJob(ctx, f.app.ID) }},
	{"TestRun", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.TestRun(ctx, vault.TestRunParams{ReactorID: f.reactor.ID})
		return err
	}},
	{"Once", func(ctx context.Context, f *inTxFixture) error {
		_, _, err := f.owner.Once(ctx, vault.IdempotencyKey{Key: "k"}, func(context.Context, *vault.Owner) (vault.StoredResponse, error) { return vault.StoredResponse{}, nil })
		return err
	}},
	{"React", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.React(ctx, f.reactor.ID, vault.ReactParams{})
		return err
	}},
	{"ReactAsync", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ReactAsync(ctx, f.reactor.ID, vault.ReactParams{})
		return err
	}},
	{"InvokeProxy", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.InvokeProxy(ctx, vault.ProxyCall{URL: "https://example.com"})
		return err
	}},
	{"RoundTripper", func(ctx context.Context, f *inTxFixture) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		_, err = f.owner.RoundTripper(nil).RoundTrip(req)
		return err
	}},
	{"GetTenant", func(ctx context.Context, f *inTxFixture) error { _, err := f.owner.GetTenant(ctx); return err }},
	{"ReplaceTenant", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.ReplaceTenant(ctx, vault.TenantParams{Name: "x"})
		return err
	}},
	{"PatchTenant", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.PatchTenant(ctx, vault.JSON(`{"name":"x"}`))
		return err
	}},
	{"Import", func(ctx context.Context, f *inTxFixture) error {
		for _, err := range f.owner.Import(ctx, func(func(vault.TokenParams, error) bool) {}, nil) {
			return err
		}
		return nil
	}},
	{"EraseTokens", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.EraseTokens(ctx, vault.EraseParams{Query: "type:token", Reason: "x"})
		return err
	}},
	{"Export", func(ctx context.Context, f *inTxFixture) error {
		for _, err := range f.owner.Export(ctx, nil) {
			return err
		}
		return nil
	}},
	{"FollowLogs", func(ctx context.Context, f *inTxFixture) error {
		for _, err := range f.owner.FollowLogs(ctx, "") {
			return err
		}
		return nil
	}},
	{"NextLogs", func(ctx context.Context, f *inTxFixture) error { _, err := f.owner.NextLogs(ctx, "", 0); return err }},
	{"Stats", func(ctx context.Context, f *inTxFixture) error { _, err := f.owner.Stats(ctx); return err }},
	{"RotateWebhookSecret", func(ctx context.Context, f *inTxFixture) error {
		_, err := f.owner.RotateWebhookSecret(ctx)
		return err
	}},
}

// A transaction whose snapshot is older than a change of rights still works with the
// rights that its client has now.
func TestInTxUsesCurrentRights(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]func(*vault.Owner, uuid.UUID) error{
		"deleted": func(c *vault.Owner, app uuid.UUID) error { return c.DeleteApplication(context.Background(), app) },
		"key regenerated": func(c *vault.Owner, app uuid.UUID) error {
			_, err := c.RegenerateKey(context.Background(), app)
			return err
		},
		"rights cut": func(c *vault.Owner, app uuid.UUID) error {
			_, err := c.PatchApplication(context.Background(), app, vault.JSON(`{"permissions":["token:create"]}`))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newShopOnPostgres(t, "postgres", nil)
			secret := create(t, s.Owner.Client, aCard("secret"))
			for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
				app, err := s.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
				if err != nil {
					t.Fatal(err)
				}
				c, err := s.Authenticate(t.Context(), app.Key)
				if err != nil {
					t.Fatal(err)
				}
				as, err := s.Owner.As(t.Context(), app.ID)
				if err != nil {
					t.Fatal(err)
				}
				tx, err := s.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
				if err != nil {
					t.Fatal(err)
				}
				get(t, c.InTx(tx), secret.ID) // the snapshot is taken
				if err := revoke(s.Owner, app.ID); err != nil {
					t.Fatal(err)
				}
				if _, err := c.InTx(tx).GetToken(t.Context(), secret.ID); err == nil {
					t.Errorf("%s: the key still works in the transaction", level)
				}
				if _, err := as.InTx(tx).GetToken(t.Context(), secret.ID); (err == nil) != (name == "key regenerated") {
					t.Errorf("%s: as the application: %v", level, err)
				}
				rollback(t, tx)
			}
		})
	}
}

// What a transaction does to an application holds inside of it at once.
func TestInTxSeesItsOwnChangesOfRights(t *testing.T) {
	t.Parallel()
	inShops(t, nil, func(t *testing.T, s *shop) {
		secret := create(t, s.Owner.Client, aCard("secret"))
		app, err := s.Owner.CreateApplication(t.Context(), vault.ApplicationParams{Name: "a", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create"}})
		if err != nil {
			t.Fatal(err)
		}
		tx := s.begin(t)
		in := s.Owner.InTx(tx)
		as, err := in.As(t.Context(), app.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, err = as.GetToken(t.Context(), secret.ID)
		wantError(t, "before", err, vault.ErrForbidden)
		if _, err := in.PatchApplication(t.Context(), app.ID, vault.JSON(`{"permissions":["token:read"]}`)); err != nil {
			t.Fatal(err)
		}
		get(t, as, secret.ID)
		if err := in.DeleteApplication(t.Context(), app.ID); err != nil {
			t.Fatal(err)
		}
		_, err = as.GetToken(t.Context(), secret.ID)
		wantError(t, "deleted", err, vault.ErrUnauthenticated)
		rollback(t, tx)
	})
}
