//go:build !race

package sim

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// ownURI is the URI of the key of the tenant that has one.
const ownURI = "sim:own"

// features selects the parts of a vault that take part in a history.
type features struct {
	evidence, sink, own bool
}

func (p *plan) features() features {
	r := p.draw("features", 0)
	return features{evidence: r.IntN(3) == 0, sink: r.IntN(2) == 0, own: r.IntN(2) == 0}
}

// prepare creates what clients work with.
func (w *world) prepare(ctx context.Context, v *vault.Vault, all []*client) error {
	for n := range 2 {
		tenant, err := v.CreateTenant(ctx, fmt.Sprint("tenant ", n))
		if err != nil {
			return err
		}
		if n == 1 && w.has.own {
			if err := v.SetTenantKey(ctx, tenant.ID, ownURI); err != nil {
				return err
			}
		}
		w.tenants = append(w.tenants, tenant.ID)
	}
	doomed, err := v.CreateTenant(ctx, "doomed")
	if err != nil {
		return err
	}
	w.doomed = doomed.ID
	first := v.Tenant(w.tenants[0])
	worker, err := first.CreateApplication(ctx, vault.ApplicationParams{Name: "worker", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
	if err != nil {
		return err
	}
	reactor, err := first.CreateReactor(ctx, vault.ReactorParams{Name: "reactor", Code: "module.exports = () => {}", ApplicationID: worker.ID})
	if err != nil {
		return err
	}
	public, err := first.CreateApplication(ctx, vault.ApplicationParams{Name: "page", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}})
	if err != nil {
		return err
	}
	w.reactor, w.public = reactor.ID, public.Key
	for _, id := range []string{standing, carried} {
		if _, err := first.CreateToken(ctx, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "data"}); err != nil {
			return err
		}
	}
	for _, c := range all {
		app, err := first.CreateApplication(ctx, vault.ApplicationParams{Name: fmt.Sprint("client ", c.n), Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:read"}})
		if err != nil {
			return err
		}
		c.tenants, c.app = w.tenants, app.ID
		if err := c.know(ctx, first.Client, app); err != nil {
			return err
		}
	}
	return nil
}

// chooseRare returns a random request of a kind that few tests make at once.
func (c *client) chooseRare(r *rand.Rand, q request, name, value string) request {
	first := q
	first.tenant = c.tenants[0]
	switch n := r.IntN(100); {
	case n < 10:
		return c.search(q, name)
	case n < 22:
		return c.erase(q, name)
	case n < 30:
		return c.imports(q, value)
	case n < 48:
		return c.react(first, value)
	case n < 66:
		if k := c.w.keys.pick(r, func(*credential) bool { return true }); k != nil {
			return c.use(first, k)
		}
	case n < 72:
		return c.newKey(first)
	case n < 77:
		if k := c.w.keys.pick(r, c.mine); k != nil {
			return c.dropKey(first, k)
		}
	case n < 80:
		return c.regenerate(first)
	case n < 87:
		if k := c.w.keys.pick(r, c.mine); k != nil {
			return c.session(first, k)
		}
	case n < 92:
		return c.onDoomed(q, value)
	case n < 93:
		return c.endTenant(q)
	case n < 97 && c.w.has.own:
		return c.denyKey(q, r.IntN(3) == 0)
	case n >= 97:
		return c.send(first, value)
	}
	return c.get(q, name)
}

// search finds a token by its id.
func (c *client) search(q request, thing string) request {
	q.step, q.entry = step{kind: "search", thing: thing}, "read "+thing
	q.do = func(ctx context.Context, _ *vault.Vault, as *vault.Client) (string, error) {
		page, err := as.SearchTokens(ctx, vault.SearchTokensParams{Query: `id:"` + thing + `"`})
		if err != nil {
			return "", err
		}
		if len(page.Data) == 0 {
			return "", vault.ErrNotFound
		}
		var value string
		err = page.Data[0].Data.Decode(&value)
		return value, err
	}
	return q
}

// errPart means that a request with several steps failed, perhaps not in the first.
var errPart = errors.New("a part of the request failed")

// erase erases a token by its id.
func (c *client) erase(q request, thing string) request {
	q.step, q.entry = step{kind: "erase", thing: thing}, "delete "+thing
	q.do = func(ctx context.Context, _ *vault.Vault, as *vault.Client) (string, error) {
		done, err := as.EraseTokens(ctx, vault.EraseParams{IDs: []string{thing}, Reason: "because"})
		switch {
		case unavailable(err):
			return "", errPart
		case err != nil:
			return "", err
		case done.Left > 0:
			return "", errPart
		case done.Count == 0:
			return "", vault.ErrNotFound
		}
		return "", nil
	}
	return q
}

// imports imports two tokens.
func (c *client) imports(q request, value string) request {
	q.step = step{kind: "import", thing: "import-" + value}
	entry := func(n int) string { return fmt.Sprintf("create import-%s-%d", value, n) }
	q.do = func(ctx context.Context, _ *vault.Vault, as *vault.Client) (string, error) {
		for n := range 2 {
			c.w.book.expect(q.tenant, entry(n), 0, 1)
		}
		for result, err := range as.Import(ctx, rows(value), nil) {
			if err != nil {
				return "", err
			}
			switch {
			case result.Outcome == vault.ImportCreated:
				c.w.book.expect(q.tenant, entry(result.Row-1), 1, 0)
			case !unavailable(result.Err):
				return "", result.Err
			}
		}
		return "", nil
	}
	return q
}

func rows(value string) iter.Seq2[vault.TokenParams, error] {
	return func(yield func(vault.TokenParams, error) bool) {
		for n := range 2 {
			if !yield(vault.TokenParams{ID: fmt.Sprintf("import-%s-%d", value, n), Type: vault.TypeGeneric, Data: "of " + value}, nil) {
				return
			}
		}
	}
}

// react queues a run, which creates a token and calls back.
func (c *client) react(q request, value string) request {
	q.step, q.entry = step{kind: "react", thing: ranID(value)}, ""
	q.do = func(ctx context.Context, _ *vault.Vault, as *vault.Client) (string, error) {
		job, err := as.ReactAsync(ctx, c.w.reactor, vault.ReactParams{Args: map[string]string{"Value": value}, CallbackURL: "https://receiver.example/"})
		if err != nil {
			return "", err
		}
		c.w.book.queued(job.ID, value)
		return "", nil
	}
	return q
}

// carried is the token whose data is sent to the destination. It exists throughout a
// history.
const carried = "carried"

// send sends data to the destination. An error does not tell whether it arrived.
func (c *client) send(q request, value string) request {
	q.step, q.entry = step{kind: "send", thing: value}, "use "+carried
	q.do = func(ctx context.Context, _ *vault.Vault, as *vault.Client) (string, error) {
		answer, err := as.InvokeProxy(ctx, vault.ProxyCall{URL: "https://" + destination + "/", Method: http.MethodPost,
			Header: http.Header{"Content-Type": {"text/plain"}}, Body: strings.NewReader("{{ " + carried + " }} " + value)})
		switch {
		case unavailable(err), errors.Is(err, vault.ErrUnreachable), errors.Is(err, vault.ErrTimeout):
			return "", errPart
		case err != nil:
			return "", err
		}
		c.w.outside.accept(value)
		return "", answer.Body.Close()
	}
	return q
}

// onDoomed creates a token of the tenant that is going to be deleted. The tenant must
// not accept it a second after its deletion.
func (c *client) onDoomed(q request, value string) request {
	q.tenant = c.w.doomed
	q.step = step{kind: "doomed", thing: value}
	q.do = func(ctx context.Context, _ *vault.Vault, as *vault.Client) (string, error) {
		ended, began := c.w.book.endOfTenant(), time.Now()
		_, err := as.CreateToken(ctx, vault.TokenParams{ID: "doomed-" + value, Type: vault.TypeGeneric, Data: "of " + value})
		if err == nil && !ended.IsZero() && began.Sub(ended) > withinASecond {
			c.w.failf("a tenant accepted a token %s after its deletion", began.Sub(ended))
		}
		return "", err
	}
	return q
}

// endTenant deletes a tenant.
func (c *client) endTenant(q request) request {
	q.tenant = c.w.doomed
	q.step = step{kind: "end tenant"}
	q.do = func(ctx context.Context, v *vault.Vault, _ *vault.Client) (string, error) {
		err := v.DeleteTenant(ctx, q.tenant)
		if err == nil || errors.Is(err, vault.ErrNotFound) {
			c.w.book.tenantEnded()
		}
		return "", err
	}
	return q
}

// denyKey denies or restores the key of the tenant that has one.
func (c *client) denyKey(q request, denied bool) request {
	q.step = step{kind: "restore own key"}
	if denied {
		q.kind = "deny own key"
	}
	q.do = func(context.Context, *vault.Vault, *vault.Client) (string, error) {
		c.w.outside.deny(denied)
		return "", nil
	}
	return q
}

// tolerated is how long a tenant is served at most after its key was denied, while the
// holder of the key may be unreachable: the age of a key, its grace, and a call that
// hangs.
const tolerated = time.Minute + 5*time.Minute + longestHang + 2*time.Second

// onOwn makes a request fail the history if it is served although the tenant's own key
// was denied long ago.
func (c *client) onOwn(q request) request {
	if !c.w.has.own || q.tenant != c.tenants[1] || !slices.Contains([]string{"create", "get", "patch", "search"}, q.kind) {
		return q
	}
	do := q.do
	q.do = func(ctx context.Context, v *vault.Vault, as *vault.Client) (string, error) {
		denied := c.w.outside.deniedFor()
		value, err := do(ctx, v, as)
		if err == nil && denied > tolerated && c.w.outside.deniedFor() > denied-1 {
			c.w.failf("%s was served although the tenant's key was denied %s before", q, denied)
		}
		return value, err
	}
	return q
}

// expect adds to how many log entries there must be.
func (b *book) expect(tenant uuid.UUID, what string, least, most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entry(tenant, what)
	e.least, e.most = e.least+least, e.most+most
}

// queued notes a job that was acknowledged.
func (b *book) queued(id uuid.UUID, value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.jobs[id.String()] = value
}

// tenantEnded notes that a tenant was deleted.
func (b *book) tenantEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended.IsZero() {
		b.ended = time.Now()
	}
}

func (b *book) endOfTenant() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}
