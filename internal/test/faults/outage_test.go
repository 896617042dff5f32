package faults

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// nodes are vaults on one database, each with its REST handler.
type nodes struct {
	vaults   []*vault.Vault
	handlers []http.Handler
	tenant   *vault.Client // acts for the embedding program, on the first node
	tenantID uuid.UUID
	key      string // of an application with all permissions for tokens
}

// openNodes opens vaults for a test, each with its own store.
func openNodes(t *testing.T, count int, open func() (vault.Storage, error)) *nodes {
	t.Helper()
	return openNodesFor(t, count, open, vault.NewKey(), nil)
}

// openNodesFor opens vaults like openNodes, but with this master key and a
// tenant for which fits is true. fits may be nil.
func openNodesFor(t *testing.T, count int, open func() (vault.Storage, error), master *vault.Key, fits func(uuid.UUID) bool) *nodes {
	t.Helper()
	n := &nodes{}
	for i := range count {
		store := must.Get(open())(t)
		// Servers die here. Without strict read logs, the entries of the last
		// reads would be lost.
		v := must.Get(vault.Open(t.Context(), store, master,
			&vault.Config{SweepEvery: 100 * time.Millisecond, WorkEvery: 100 * time.Millisecond, StrictReadLogs: true}))(t)
		t.Cleanup(func() { v.Close() })
		n.vaults, n.handlers = append(n.vaults, v), append(n.handlers, httpserver.Handler(v, nil))
		if i == 0 {
			n.enroll(t, v, fits)
		}
	}
	return n
}

func (n *nodes) enroll(t *testing.T, v *vault.Vault, fits func(uuid.UUID) bool) {
	t.Helper()
	tenant, err := v.CreateTenant(t.Context(), "Acme")
	for err == nil && fits != nil && !fits(tenant.ID) {
		tenant, err = v.CreateTenant(t.Context(), "Acme")
	}
	must.Do(t, err)
	n.tenant, n.tenantID = v.Tenant(tenant.ID).Client, tenant.ID
	app := must.Get(n.tenant.CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "Shop", Type: vault.ApplicationPrivate,
		Permissions: []vault.Permission{"token:create", "token:read", "token:update", "token:delete"},
	}))(t)
	n.key = app.Key
}

// answer is the response that a caller got.
type answer struct {
	*httptest.ResponseRecorder
	took time.Duration
}

// send sends a request to a node. The idempotency key may be empty.
func (n *nodes) send(node int, method, path, body, once string) answer {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("SVC-API-KEY", n.key)
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if once != "" {
		r.Header.Set("SVC-IDEMPOTENCY-KEY", once)
	}
	w, began := httptest.NewRecorder(), time.Now()
	n.handlers[node].ServeHTTP(w, r)
	return answer{w, time.Since(began)}
}

// ready waits until /readyz of the first node returns a status. In the long
// run, the status may be a second late, and a request may take five seconds.
func (n *nodes) ready(t *testing.T, want int) {
	t.Helper()
	for began := time.Now(); ; <-time.After(50 * time.Millisecond) {
		a := n.send(0, "GET", "/readyz", "", "")
		if long.Run && a.took > 5*time.Second {
			t.Errorf("/readyz took %s", a.took)
		}
		if a.Code == want {
			return
		}
		if long.Run && time.Since(began) > 5*time.Second {
			t.Errorf("/readyz returns %d, want %d", a.Code, want)
			return
		}
	}
}

// ledger records the acknowledged operations and the responses of callers.
type ledger struct {
	mu       sync.Mutex
	tokens   map[string]string // data by token id; empty if deleted
	replays  map[string]string // response by idempotency key
	entries  map[string]int    // minimum number of log entries, by operation and token
	statuses map[int]int
	longest  time.Duration
	wrong    []string
}

func newLedger() *ledger {
	return &ledger{tokens: map[string]string{}, replays: map[string]string{}, entries: map[string]int{}, statuses: map[int]int{}}
}

// saw counts a response and reports whether its status is one of ends. Any
// other status must be a 503 with a time to retry.
func (l *ledger) saw(a answer, ends ...int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[a.Code]++
	l.longest = max(l.longest, a.took)
	for _, status := range ends {
		if a.Code == status {
			return true
		}
	}
	if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" {
		l.wrong = append(l.wrong, fmt.Sprintf("%d %s", a.Code, a.Body))
	}
	return false
}

// done returns the number of tokens whose creation or deletion was
// acknowledged.
func (l *ledger) done() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tokens)
}

func (l *ledger) acknowledge(id, data string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens[id] = data
}

// entered expects one more log entry for an operation on a token.
func (l *ledger) entered(operation, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[operation+" "+id]++
}

// load is a set of callers that send requests.
type load struct {
	*nodes
	*ledger
	stop chan struct{}
	work sync.WaitGroup
}

const callersOfANode = 6

// start starts callers on all nodes. They work until end is called.
func (n *nodes) start() *load {
	l := &load{nodes: n, ledger: newLedger(), stop: make(chan struct{})}
	for node := range n.handlers {
		for range callersOfANode {
			l.work.Go(func() { l.call(node) })
		}
	}
	return l
}

// end lets callers finish their current request.
func (l *load) end() {
	close(l.stop)
	l.work.Wait()
}

// call runs every operation on a token, in a loop.
func (l *load) call(node int) {
	pace := time.NewTicker(30 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-pace.C:
		}
		id := l.create(node)
		data := uuid.NewString()
		l.until(node, "PATCH", "/tokens/"+id, fmt.Sprintf(`{"data":%q}`, data), "", 200)
		l.acknowledge(id, data)
		l.entered("update", id)
		l.read(node, id)
		if n%3 == 0 {
			// A repeated DELETE gets a 404 if the first one succeeded.
			l.until(node, "DELETE", "/tokens/"+id, "", "", 204, 404)
			l.acknowledge(id, "")
		}
		l.createAtRisk(node)
	}
}

// until repeats a request until its status is one of ends.
func (l *load) until(node int, method, path, body, once string, ends ...int) answer {
	for {
		a := l.send(node, method, path, body, once)
		if l.saw(a, ends...) {
			return a
		}
		<-time.After(20 * time.Millisecond)
		l.mu.Lock()
		hopeless := len(l.wrong) > 20
		l.mu.Unlock()
		if hopeless {
			return a
		}
	}
}

// create creates a token with an idempotency key, which resolves the unknown
// result of a 503.
func (l *load) create(node int) string {
	once, data := uuid.NewString(), uuid.NewString()
	a := l.until(node, "POST", "/tokens", tokenBody(data), once, 201)
	id := idOf(a)
	l.acknowledge(id, data)
	l.mu.Lock()
	l.replays[once] = a.Body.String()
	l.mu.Unlock()
	return id
}

func (l *load) read(node int, id string) {
	l.until(node, "GET", "/tokens/"+id, "", "", 200)
	l.entered("read", id)
}

// createAtRisk creates a token without an idempotency key. The result of a 503
// stays unknown.
func (l *load) createAtRisk(node int) {
	data := uuid.NewString()
	if a := l.send(node, "POST", "/tokens", tokenBody(data), ""); l.saw(a, 201) {
		l.acknowledge(idOf(a), data)
	}
}

// tokenBody returns a token whose metadata identifies its request.
func tokenBody(data string) string {
	return fmt.Sprintf(`{"type":"token","data":%q,"metadata":{"request":%q}}`, data, data)
}

func idOf(a answer) string {
	var token struct{ ID string }
	_ = json.Unmarshal(a.Body.Bytes(), &token)
	return token.ID
}

// patience is the time after which a test gives up on its callers.
const patience = 10 * time.Minute

// wait waits until callers have finished this many more tokens.
func (l *load) wait(t *testing.T, more int) {
	t.Helper()
	want := l.done() + more
	l.eventually(t, func() bool { return l.done() >= want })
}

// waitForRefusal waits until a caller gets a 503.
func (l *load) waitForRefusal(t *testing.T) {
	t.Helper()
	l.eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.statuses[http.StatusServiceUnavailable] > 0
	})
}

// eventually waits until a condition holds.
func (l *load) eventually(t *testing.T, holds func() bool) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for began := time.Now(); !holds(); <-look.C {
		if time.Since(began) > patience {
			l.end()
			t.Fatalf("only %d tokens in %s; callers got the statuses %v and the problems %v", l.done(), patience, l.statuses, l.wrong)
		}
	}
}

// check ends the callers and checks everything that was acknowledged to them:
// tokens, log entries, and the stored responses of idempotency keys.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.end()
	t.Logf("callers saw %v, and waited for %s at the most; %d tokens, %d keys", l.statuses, l.longest, len(l.tokens), len(l.replays))
	for _, wrong := range l.wrong[:min(len(l.wrong), 5)] {
		t.Errorf("a caller saw %s", wrong)
	}
	found, logged := readTokens(t, l.tenant), readLog(t, l.tenant)
	requests := map[string]int{}
	for _, tok := range found {
		requests[tok.Metadata["request"]]++
	}
	for request, count := range requests {
		if count > 1 {
			t.Errorf("request %s created %d tokens", request, count)
		}
	}
	for id, data := range l.tokens {
		l.checkToken(t, id, data, found, logged)
	}
	for entry, want := range l.entries {
		// Requests that got a 503 may have entries too.
		if got := logged[entry]; got < want {
			t.Errorf("%s: %d entries in the log, want at least %d", entry, got, want)
		}
	}
	for once, body := range l.replays {
		a := l.send(len(l.handlers)-1, "POST", "/tokens", tokenBody("another"), once)
		if a.Code != 201 || a.Body.String() != body || a.Header().Get("SVC-IDEMPOTENT-REPLAYED") != "true" {
			t.Errorf("a replay has status %d, replayed %q, same body: %v", a.Code, a.Header().Get("SVC-IDEMPOTENT-REPLAYED"), a.Body.String() == body)
		}
	}
}

func (l *load) checkToken(t *testing.T, id, data string, found map[string]vault.Token, logged map[string]int) {
	t.Helper()
	tok, there := found[id]
	if there != (data != "") || there && string(tok.Data) != fmt.Sprintf("%q", data) {
		t.Errorf("token %s: exists: %v, want %v, with the acknowledged data", id, there, data != "")
	}
	must.Same(t, "token "+id+": created", 1, logged["create "+id])
	must.Same(t, "token "+id+" is deleted in the log", data == "", logged["delete "+id] == 1)
}

// served fails the test if a caller got an error.
func (l *load) served(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for status := range maps.Keys(l.statuses) {
		if status >= 300 {
			t.Errorf("callers got %v, but the outage was shorter than their wait", l.statuses)
			return
		}
	}
}

// refused fails the test if no caller got a 503. In the long run it also fails
// if a caller waited too long.
func (l *load) refused(t *testing.T, wait time.Duration) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.statuses[http.StatusServiceUnavailable] == 0 {
		t.Errorf("callers got %v, but the outage was longer than their wait", l.statuses)
	}
	if long.Run && l.longest > wait {
		t.Errorf("a caller waited for %s, want at most %s", l.longest, wait)
	}
}
