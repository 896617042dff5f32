package vault_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// inTxCase is a call of a method in a transaction. It fails if the method does not
// see the writes of the transaction.
type inTxCase struct {
	method string
	call   func(f *inTx) error
}

// inTx holds entities that only the transaction can see.
type inTx struct {
	ctx             context.Context
	tx              vault.Tx
	owner           *vault.Owner
	public, private *vault.Client
	app, spare      *vault.Application
	key             uuid.UUID // of spare
	reactor         *vault.Reactor
	proxy           *vault.Proxy
	session         *vault.Session
}

func newInTx(t *testing.T, s *shop) *inTx {
	t.Helper()
	ctx, tx := t.Context(), s.begin(t)
	f := &inTx{ctx: ctx, tx: tx, owner: s.Owner.InTx(tx), public: s.Public.InTx(tx)}
	given.Create(t, f.owner.Client, vault.TokenParams{ID: "card", Type: vault.TypeCardNumber, Data: given.Visa, Metadata: map[string]string{"order": "7"}, Containers: []string{"/new/"}})
	given.Create(t, f.owner.Client, aCard("other"))
	var err [7]error
	f.app, err[0] = f.owner.CreateApplication(ctx, anApplication("App"))
	f.spare, err[1] = f.owner.CreateApplication(ctx, anApplication("Spare"))
	f.private, err[2] = f.owner.As(ctx, f.app.ID)
	f.reactor, err[3] = f.owner.CreateReactor(ctx, aReactor("Reactor"))
	f.proxy, err[4] = f.owner.CreateProxy(ctx, aProxy("Proxy"))
	f.session, err[5] = f.public.CreateSession(ctx)
	_, err[6] = f.public.CreateSession(ctx)
	must.Do(t, errors.Join(err[:]...))
	return f
}

func anApplication(name string) vault.ApplicationParams {
	return vault.ApplicationParams{Name: name, Type: vault.ApplicationPrivate, Permissions: given.Everything}
}

func aReactor(name string) vault.ReactorParams {
	return vault.ReactorParams{Name: name, Code: "module.exports = r => r", Configuration: map[string]string{}}
}

func aProxy(name string) vault.ProxyParams {
	return vault.ProxyParams{Name: name, DestinationURL: "https://example.com"}
}

// count fails unless a list has exactly want items.
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

// pageOf fails unless a page has exactly want items.
func pageOf[T any](want int) func(*vault.Page[T], error) error {
	return func(page *vault.Page[T], err error) error {
		if err != nil {
			return err
		}
		return number(want, len(page.Data))
	}
}

// is fails unless got equals want.
func is[T comparable](want, got T) error {
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// TestInTxEveryMethod calls every method of a client in a transaction, on entities that
// only the transaction can see. A rollback removes all of them.
func TestInTxEveryMethod(t *testing.T) {
	t.Parallel()
	works := slices.Concat(inTxTokens, inTxIdentities, inTxAdmin)
	untried := map[string]bool{}
	for i := range reflect.TypeFor[*vault.Client]().NumMethod() {
		untried[reflect.TypeFor[*vault.Client]().Method(i).Name] = true
	}
	for _, c := range works {
		delete(untried, c.method)
	}
	withoutEffects := []string{"TenantID", "ApplicationID", "Masked", "From", "Format", "LogValue"}
	for _, method := range slices.Concat(withoutEffects, notInTx, []string{"RoundTripper"}) {
		delete(untried, method)
	}
	given.Same(t, "not tried", len(untried), 0)
	shops.each(t, nil, func(t *testing.T, s *shop) {
		before, entries := inVault(t, s)
		f := newInTx(t, s)
		var refused []string
		callEach(f.ctx, f.owner, arguments(s.Vault), func(method string, err error) {
			if errors.Is(err, vault.ErrInTx) {
				must.Contain(t, "the error", err.Error(), method)
				refused = append(refused, method)
			}
		})
		given.Same(t, "methods that are refused", refused, notInTx)
		req := httptest.NewRequestWithContext(f.ctx, "POST", "https://example.com", strings.NewReader("{}"))
		_, err := f.owner.RoundTripper(nil).RoundTrip(req)
		must.Match(t, "RoundTripper", err, vault.ErrInTx)
		rollback(t, f.tx)
		f = newInTx(t, s)
		for _, c := range works {
			must.Match(t, c.method, c.call(f), nil)
		}
		rollback(t, f.tx)
		if after, logged := inVault(t, s); after != before || logged != entries {
			t.Errorf("after the rollback: %v and %d entries, want %v and %d", after, logged, before, entries)
		}
	})
}

// inVault returns the number of tokens, applications, reactors, proxies and
// sessions, and the number of log entries about writes.
func inVault(t *testing.T, s *shop) (things [5]int, entries int) {
	t.Helper()
	ctx := t.Context()
	n := func(i int, total int, err error) {
		t.Helper()
		must.Do(t, err)
		things[i] = total
	}
	entries = len(collect(t, s.Owner.AllLogs(ctx, vault.ListLogsParams{Operation: vault.OperationCreate}), entryID))
	tokens, err := s.Owner.ListTokens(ctx, vault.ListTokensParams{})
	n(0, tokens.Pagination.TotalItems, err)
	apps, err := s.Owner.ListApplications(ctx, vault.ListApplicationsParams{})
	n(1, apps.Pagination.TotalItems, err)
	reactors, err := s.Owner.ListReactors(ctx, vault.ListParams{})
	n(2, reactors.Pagination.TotalItems, err)
	proxies, err := s.Owner.ListProxies(ctx, vault.ListParams{})
	n(3, proxies.Pagination.TotalItems, err)
	sessions, err := s.Owner.ListSessions(ctx, vault.PageParams{})
	n(4, sessions.Pagination.TotalItems, err)
	return things, entries
}

// inTxTokens are calls about tokens, in an order in which each finds the data that
// it needs. At first there are two tokens.
var inTxTokens = []inTxCase{
	{"GetToken", func(f *inTx) error { return must.Err(f.private.GetToken(f.ctx, "card")) }},
	{"PatchToken", func(f *inTx) error {
		return must.Err(f.private.PatchToken(f.ctx, "card", vault.JSON(`{"metadata":{"order":"8"}}`)))
	}},
	{"ListTokens", func(f *inTx) error {
		return pageOf[vault.Token](2)(f.private.ListTokens(f.ctx, vault.ListTokensParams{}))
	}},
	{"AllTokens", func(f *inTx) error { return count(2, f.private.AllTokens(f.ctx, vault.ListTokensParams{})) }},
	{"ListTokensAfter", func(f *inTx) error {
		p := vault.ListTokensParams{PageParams: vault.PageParams{Size: 1}}
		first, err := f.private.ListTokensAfter(f.ctx, p, "")
		if err != nil {
			return err
		}
		next, err := f.private.ListTokensAfter(f.ctx, p, first.Pagination.After)
		if err != nil || len(next.Data) != 1 || next.Data[0].ID != "card" {
			return fmt.Errorf("the second page does not have the card: %w", err)
		}
		return nil
	}},
	{"SearchTokens", func(f *inTx) error {
		return pageOf[vault.Token](1)(f.private.SearchTokens(f.ctx, vault.SearchTokensParams{Query: "metadata.order:8 AND container:/new/"}))
	}},
	{"ListTokensAfter", func(f *inTx) error {
		page, err := f.private.ListTokensAfter(f.ctx, vault.SearchTokensParams{Query: "type:card_number"}, "")
		if err != nil {
			return err
		}
		return number(2, len(page.Data))
	}},
	{"AllTokens", func(f *inTx) error {
		return count(1, f.private.AllTokens(f.ctx, vault.SearchTokensParams{Query: "metadata.order:8"}))
	}},
	{"Detokenize", func(f *inTx) error {
		doc, err := f.owner.Detokenize(f.ctx, "{{ card }}")
		if err == nil && string(doc) != `"`+given.Visa+`"` {
			err = errors.New("it is another document")
		}
		return err
	}},
	{"Tokenize", func(f *inTx) error { return must.Err(f.private.Tokenize(f.ctx, "x")) }},
	{"CreateToken", func(f *inTx) error { return must.Err(f.private.CreateToken(f.ctx, aCard("third"))) }},
	{"InTx", func(f *inTx) error { return must.Err(f.owner.InTx(f.tx).GetToken(f.ctx, "card")) }},
	{"AsUser", func(f *inTx) error {
		if err := f.private.AsUser("jane@example.com").DeleteToken(f.ctx, "other"); err != nil {
			return err
		}
		page, err := f.owner.ListLogs(f.ctx, vault.ListLogsParams{EntityID: "other", Operation: vault.OperationDelete})
		if err == nil && (len(page.Data) != 1 || page.Data[0].ActorName != "jane@example.com") {
			err = errors.New("the entry does not name the user")
		}
		return err
	}},
	{"EraseTokens", func(f *inTx) error {
		for _, id := range []string{"by-id", "by-query"} {
			if _, err := f.private.CreateToken(f.ctx, aCard(id)); err != nil {
				return err
			}
		}
		done, err := f.private.EraseTokens(f.ctx, vault.EraseParams{IDs: []string{"by-id", "nobody"}, Reason: "case 7"})
		if err != nil {
			return err
		}
		all, err := f.owner.EraseTokens(f.ctx, vault.EraseParams{Query: "id:by-query", Reason: "case 7"})
		if err != nil {
			return err
		}
		return is([4]int{1, 0, 1, 0}, [4]int{done.Count, done.Left, all.Count, all.Left})
	}},
	{"DeleteToken", func(f *inTx) error { return f.private.DeleteToken(f.ctx, "third") }},
}

// inTxIdentities are calls about keys, applications and sessions.
var inTxIdentities = []inTxCase{
	{"HasPermission", func(f *inTx) error { return f.private.HasPermission(f.ctx, "token:read") }},
	{"As", func(f *inTx) error { return must.Err(f.owner.As(f.ctx, f.app.ID)) }},
	{"ListPermissions", func(f *inTx) error { return must.Err(f.private.ListPermissions(f.ctx)) }},
	{"Explain", func(f *inTx) error {
		return must.Err(f.owner.Explain(f.ctx, vault.ExplainParams{ApplicationID: f.app.ID, Permission: "token:read", TokenID: "card"}))
	}},
	{"Now", func(f *inTx) error {
		_, err := f.private.Now(f.ctx)
		return err
	}},
	{"OwnApplication", func(f *inTx) error {
		app, err := f.private.OwnApplication(f.ctx)
		if err != nil {
			return err
		}
		return is(f.app.ID, app.ID)
	}},
	{"GetApplication", func(f *inTx) error { return must.Err(f.owner.GetApplication(f.ctx, f.app.ID)) }},
	{"ListApplications", func(f *inTx) error {
		return pageOf[vault.Application](1)(f.owner.ListApplications(f.ctx, vault.ListApplicationsParams{Name: "App"}))
	}},
	{"AllApplications", func(f *inTx) error {
		return count(1, f.owner.AllApplications(f.ctx, vault.ListApplicationsParams{Name: "App"}))
	}},
	{"ApplyApplication", func(f *inTx) error {
		later := anApplication("Applied")
		later.ExpiresAt = time.Now().Add(48 * time.Hour)
		return applied(f.ctx, f.owner.ApplyApplication, anApplication("Applied"), later)
	}},
	{"EnsureApplication", func(f *inTx) error {
		return ensured(f.ctx, f.owner.EnsureApplication, anApplication, f.app, func(x *vault.Application) uuid.UUID { return x.ID })
	}},
	{"ReplaceApplication", func(f *inTx) error {
		return must.Err(f.owner.ReplaceApplication(f.ctx, f.spare.ID, anApplication("Replaced")))
	}},
	{"PatchApplication", func(f *inTx) error {
		return must.Err(f.owner.PatchApplication(f.ctx, f.spare.ID, vault.JSON(`{"name":"Patched"}`)))
	}},
	{"CreateApplicationKey", func(f *inTx) error {
		k, err := f.owner.CreateApplicationKey(f.ctx, f.spare.ID, vault.ApplicationKeyParams{})
		if err == nil {
			f.key = k.ID
		}
		return err
	}},
	{"ListApplicationKeys", func(f *inTx) error {
		keys, err := f.owner.ListApplicationKeys(f.ctx, f.spare.ID)
		return errors.Join(err, is(2, len(keys)))
	}},
	{"GetApplicationKey", func(f *inTx) error { return must.Err(f.owner.GetApplicationKey(f.ctx, f.spare.ID, f.key)) }},
	{"DeleteApplicationKey", func(f *inTx) error { return f.owner.DeleteApplicationKey(f.ctx, f.spare.ID, f.key) }},
	{"RegenerateKey", func(f *inTx) error { return must.Err(f.owner.RegenerateKey(f.ctx, f.spare.ID)) }},
	{"CreateApplication", func(f *inTx) error { return must.Err(f.owner.CreateApplication(f.ctx, anApplication("Another"))) }},
	{"DeleteApplication", func(f *inTx) error { return f.owner.DeleteApplication(f.ctx, f.spare.ID) }},
	{"CreateSession", func(f *inTx) error { return must.Err(f.public.CreateSession(f.ctx)) }},
	{"AuthorizeSession", func(f *inTx) error {
		return f.private.AuthorizeSession(f.ctx, vault.SessionGrant{Nonce: f.session.Nonce, Permissions: []vault.Permission{"token:create"}})
	}},
	{"ListSessions", func(f *inTx) error {
		return pageOf[vault.SessionInfo](3)(f.owner.ListSessions(f.ctx, vault.PageParams{}))
	}},
	{"AllSessions", func(f *inTx) error { return count(3, f.owner.AllSessions(f.ctx)) }},
	{"DeleteSession", func(f *inTx) error {
		page, err := f.owner.ListSessions(f.ctx, vault.PageParams{})
		if err != nil {
			return err
		}
		return f.owner.DeleteSession(f.ctx, page.Data[0].ID)
	}},
}

// applied creates an entity, applies it again, and then changes it.
func applied[P, T any](ctx context.Context, apply func(context.Context, P) (*vault.Applied[T], error), p, other P) error {
	made, errMade := apply(ctx, p)
	again, errAgain := apply(ctx, p)
	changed, errChanged := apply(ctx, other)
	if err := errors.Join(errMade, errAgain, errChanged); err != nil {
		return err
	}
	return errors.Join(is(true, made.Created), is(false, again.Created || again.Changed), is(true, changed.Changed))
}

// ensured finds an existing entity by its name, and creates a missing entity once.
func ensured[P, T any](ctx context.Context, ensure func(context.Context, P) (*T, error), params func(name string) P, there *T, id func(*T) uuid.UUID) error {
	found, err := ensure(ctx, params(reflect.ValueOf(there).Elem().FieldByName("Name").String()))
	made, errMade := ensure(ctx, params("Ensured"))
	again, errAgain := ensure(ctx, params("Ensured"))
	if err := errors.Join(err, errMade, errAgain); err != nil {
		return err
	}
	return errors.Join(is(id(there), id(found)), is(id(made), id(again)))
}
