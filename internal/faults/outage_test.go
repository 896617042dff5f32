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
	"github.com/seed-72ea4aab/vault/internal/long"
)

// nodes are vaults on one database, each behind REST.
type nodes struct {
	vaults   []*vault.Vault
	handlers []http.Handler
	tenant   *vault.Client // the embedding program's, on the first node
	tenantID uuid.UUID
	key      string // of an application that may do everything with tokens
}

// openNodes opens vaults for a test, each on a store of its own.
func openNodes(t *testing.T, count int, open func() (vault.Storage, error)) *nodes {
	t.Helper()
	return openNodesFor(t, count, open, vault.NewKey(), nil)
}

// openNodesFor opens vaults as openNodes does, under a master key, for a tenant that
// fits. All do when the function is nil.
func openNodesFor(t *testing.T, count int, open func() (vault.Storage, error), master *vault.Key, fits func(uuid.UUID) bool) *nodes {
	t.Helper()
	n := &nodes{}
	for i := range count {
		store, err := open()
		if err != nil {
			t.Fatal(err)
		}
		// Servers die here, and would take the entries of the last reads with them.
		v, err := vault.Open(t.Context(), store, master,
			&vault.Config{SweepEvery: 100 * time.Millisecond, WorkEvery: 100 * time.Millisecond, StrictReadLogs: true})
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	n.tenant, n.tenantID = v.Tenant(tenant.ID).Client, tenant.ID
	app, err := n.tenant.CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "Shop", Type: vault.ApplicationPrivate,
		Permissions: []vault.Permission{"token:create", "token:read", "token:update", "token:delete"},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.key = app.Key
}

// answer is what a caller got.
type answer struct {
	*httptest.ResponseRecorder
	took time.Duration
}

// send sends a request to a node. A key of idempotency may be empty.
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

// ready waits until /readyz of the first node has a status. In the long run it may
// be a second late, and takes five seconds at the most.
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
			t.Errorf("/readyz is a %d, want %d", a.Code, want)
			return
		}
	}
}

// ledger is what callers were told is done, and what they saw.
type ledger struct {
	mu       sync.Mutex
	tokens   map[string]string // the data of each token; empty when it is deleted
	replays  map[string]string // the answer of each key of idempotency
	entries  map[string]int    // how many updates and reads of each token the log must have
	statuses map[int]int
	longest  time.Duration
	wrong    []string
}

func newLedger() *ledger {
	return &ledger{tokens: map[string]string{}, replays: map[string]string{}, entries: map[string]int{}, statuses: map[int]int{}}
}

// saw counts an answer, and reports whether it is one of those that a request
// ends with. Any other must be a 503 that says when to come again.
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

// done is how many tokens are known to be there, or to be gone.
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

// entered expects one more entry of the log, for an operation on a token.
func (l *ledger) entered(operation, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[operation+" "+id]++
}

// load is callers at work.
type load struct {
	*nodes
	*ledger
	stop chan struct{}
	work sync.WaitGroup
}

const callersOfANode = 6

// start lets callers work on all nodes until the test ends them.
func (n *nodes) start() *load {
	l := &load{nodes: n, ledger: newLedger(), stop: make(chan struct{})}
	for node := range n.handlers {
		for range callersOfANode {
			l.work.Go(func() { l.call(node) })
		}
	}
	return l
}

// end lets callers end what they have begun.
func (l *load) end() {
	close(l.stop)
	l.work.Wait()
}

// call does everything that one does with a token, again and again.
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
			// One that is tried again may have been deleted the first time.
			l.until(node, "DELETE", "/tokens/"+id, "", "", 204, 404)
			l.acknowledge(id, "")
		}
		l.createAtRisk(node)
	}
}

// until sends a request until it is answered.
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

// create creates a token under a key of idempotency, which finds out what a 503
// has left open.
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

// createAtRisk creates a token without a key. What a 503 has left open stays so.
func (l *load) createAtRisk(node int) {
	data := uuid.NewString()
	if a := l.send(node, "POST", "/tokens", tokenBody(data), ""); l.saw(a, 201) {
		l.acknowledge(idOf(a), data)
	}
}

// tokenBody is a token whose metadata tells it from those of all other requests.
func tokenBody(data string) string {
	return fmt.Sprintf(`{"type":"token","data":%q,"metadata":{"request":%q}}`, data, data)
}

func idOf(a answer) string {
	var token struct{ ID string }
	_ = json.Unmarshal(a.Body.Bytes(), &token)
	return token.ID
}

// patience is how long callers may take for some work before a test gives up.
const patience = 10 * time.Minute

// wait lets callers get some more work done.
func (l *load) wait(t *testing.T, more int) {
	t.Helper()
	want := l.done() + more
	l.eventually(t, func() bool { return l.done() >= want })
}

// waitForRefusal waits until a caller has been told to come again.
func (l *load) waitForRefusal(t *testing.T) {
	t.Helper()
	l.eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.statuses[http.StatusServiceUnavailable] > 0
	})
}

// eventually waits until something holds.
func (l *load) eventually(t *testing.T, holds func() bool) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for began := time.Now(); !holds(); <-look.C {
		if time.Since(began) > patience {
			l.end()
			t.Fatalf("no more than %d tokens in %s; callers saw %v, and %v", l.done(), patience, l.statuses, l.wrong)
		}
	}
}

// check ends the callers, and looks for everything that they were told is done:
// tokens, entries of the log, and the answers that keys of idempotency keep.
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
			t.Errorf("request %s has made %d tokens", request, count)
		}
	}
	for id, data := range l.tokens {
		l.checkToken(t, id, data, found, logged)
	}
	for entry, want := range l.entries {
		// What a 503 has left open may have an entry too.
		if got := logged[entry]; got < want {
			t.Errorf("%s: %d entries in the log, want at least %d", entry, got, want)
		}
	}
	for once, body := range l.replays {
		a := l.send(len(l.handlers)-1, "POST", "/tokens", tokenBody("another"), once)
		if a.Code != 201 || a.Body.String() != body || a.Header().Get("SVC-IDEMPOTENT-REPLAYED") != "true" {
			t.Errorf("a replay is a %d, replayed %q, and the same answer: %v", a.Code, a.Header().Get("SVC-IDEMPOTENT-REPLAYED"), a.Body.String() == body)
		}
	}
}

func (l *load) checkToken(t *testing.T, id, data string, found map[string]vault.Token, logged map[string]int) {
	t.Helper()
	tok, there := found[id]
	if there != (data != "") || there && string(tok.Data) != fmt.Sprintf("%q", data) {
		t.Errorf("token %s: there %v, want %v, with the data that was acknowledged", id, there, data != "")
	}
	if got := logged["create "+id]; got != 1 {
		t.Errorf("token %s: created %d times in the log", id, got)
	}
	if got := logged["delete "+id]; (got == 1) != (data == "") {
		t.Errorf("token %s: deleted %d times in the log", id, got)
	}
}

// served fails the test if a caller had to come again.
func (l *load) served(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for status := range maps.Keys(l.statuses) {
		if status >= 300 {
			t.Errorf("callers saw %v, though the outage was shorter than their wait", l.statuses)
			return
		}
	}
}

// refused fails the test unless callers had to come again, in the long run after a
// wait that was no longer than it may be.
func (l *load) refused(t *testing.T, wait time.Duration) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.statuses[http.StatusServiceUnavailable] == 0 {
		t.Errorf("callers saw %v, though the outage was longer than their wait", l.statuses)
	}
	if long.Run && l.longest > wait {
		t.Errorf("a caller waited for %s, want %s at the most", l.longest, wait)
	}
}
