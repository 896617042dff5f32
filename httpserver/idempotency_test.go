package httpserver

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const idempotencyKey = "SVC-IDEMPOTENCY-KEY"

func TestIdempotencyReplaysByteForByte(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	reactor := w.do("POST", "/reactors", w.ManagementKey, reactorBody).want(t, 201).text(t, "id")
	w.create(`{"id":"doc","type":"token","data":{"n":1}}`)
	for _, c := range []struct {
		method, path, key, body string
		status                  int
	}{
		{"POST", "/tokens", w.PrivateKey, card, 201},
		{"POST", "/tokenize", w.PublicKey, `["a",` + card + `]`, 200},
		{"POST", "/sessions", w.PublicKey, "", 201},
		{"POST", "/applications", w.ManagementKey, `{"name":"x","type":"private","permissions":["token:read"]}`, 201},
		{"POST", "/proxies", w.ManagementKey, proxyBody, 201},
		{"PUT", "/reactors/" + reactor, w.ManagementKey, reactorBody, 200},
		{"PATCH", "/reactors/" + reactor, w.ManagementKey, `{"name":"y"}`, 204},
		{"PATCH", "/tokens/doc", w.PrivateKey, `{"data":{"n":2.50}}`, 200},
	} {
		name := c.method + " " + c.path
		first := w.do(c.method, c.path, c.key, c.body, idempotencyKey, "key 1").want(t, c.status)
		logged := w.totalLogs()
		again := w.do(c.method, c.path+"/", c.key, "whatever", idempotencyKey, "key 1").want(t, c.status)
		if first.body != again.body || first.Header.Get("Location") != again.Header.Get("Location") ||
			first.Header.Get("Content-Type") != again.Header.Get("Content-Type") {
			t.Errorf("%s: the responses differ:\n%v %s\n%v %s", name, first.Header, first.body, again.Header, again.body)
		}
		same(t, name+": replayed: SVC-IDEMPOTENT-REPLAYED", first.Header.Get("SVC-IDEMPOTENT-REPLAYED"), "")
		same(t, name+": replayed: SVC-IDEMPOTENT-REPLAYED", again.Header.Get("SVC-IDEMPOTENT-REPLAYED"), "true")
		same(t, name+": log entries after the replay", w.totalLogs(), logged)
		if other := w.do(c.method, c.path, c.key, c.body, idempotencyKey, "key 2"); other.Header.Get("SVC-IDEMPOTENT-REPLAYED") != "" {
			t.Errorf("%s: another key replays", name)
		}
	}
}

// totalLogs counts the entries in the audit log.
func (w *restVault) totalLogs() int {
	w.t.Helper()
	page := must.Get(w.Owner.ListLogs(context.Background(), vault.ListLogsParams{PageParams: vault.PageParams{Size: 1}}))(w.t)
	return page.Pagination.TotalItems
}

func TestIdempotencyStoresNoFailure(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	w.do("POST", "/tokens", w.PrivateKey, `{"type":"token"}`, idempotencyKey, "k").wantError(t, 400)
	w.do("POST", "/tokens", w.PrivateKey, `not json`, idempotencyKey, "k").wantError(t, 400)
	w.do("POST", "/tokens", w.PrivateKey, `{"id":"taken","type":"token","data":1}`).want(t, 201)
	taken := w.do("POST", "/tokens", w.PrivateKey, `{"id":"taken","type":"token","data":1}`, idempotencyKey, "k")
	if taken.wantError(t, 409); taken.Header.Get("Retry-After") != "" {
		t.Error("Retry-After although a retry cannot help")
	}
	if res := w.do("POST", "/tokens", w.PrivateKey, card, idempotencyKey, "k").want(t, 201); res.Header.Get("SVC-IDEMPOTENT-REPLAYED") != "" {
		t.Error("a failure was stored")
	}
}

func TestIdempotencyKeyInUseIs409(t *testing.T) {
	t.Parallel()
	w, store := breakableVault(t)
	gate := make(chan struct{})
	store.gate.Store(&gate)
	first := make(chan *response)
	go func() { first <- w.do("POST", "/tokens", w.PrivateKey, card, idempotencyKey, "k") }()
	<-gate // the first request is about to write
	busy := w.do("POST", "/tokens", w.PrivateKey, card, idempotencyKey, "k")
	busy.wantError(t, 409)
	same(t, "Retry-After", busy.Header.Get("Retry-After"), "1")
	store.gate.Store(nil)
	store.leave <- struct{}{}
	made := (<-first).want(t, 201)
	if again := w.do("POST", "/tokens", w.PrivateKey, card, idempotencyKey, "k").want(t, 201); again.body != made.body {
		t.Error("not the response of the first request")
	}
}

func TestIdempotencyKeyIsIgnoredOnGETAndDELETE(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	id := w.create(card)
	long := strings.Repeat("k", 256)
	w.do("GET", "/tokens/"+id, w.PrivateKey, "", idempotencyKey, long).want(t, 200)
	w.do("DELETE", "/tokens/"+id, w.PrivateKey, "", idempotencyKey, "k").want(t, 204)
	w.do("DELETE", "/tokens/"+id, w.PrivateKey, "", idempotencyKey, "k").wantError(t, 404)
}

// A response with plaintext is not stored, because it may contain a cvc,
// which must not exist for more than an hour.
func TestIdempotencyKeyIsIgnoredOnReadsByPOST(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	id := w.create(card)
	reveal := func() string {
		return w.do("POST", "/detokenize", w.PrivateKey, `"{{ `+id+` }}"`, idempotencyKey, "k").want(t, 200).body
	}
	must.Contain(t, "no cvc in the first hour", reveal(), `"cvc":"123"`)
	w.Clock.Advance(time.Hour)
	must.Lack(t, "the cvc came back after its hour", reveal(), "cvc")
}

func TestIdempotencyScope(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	_, otherKey := w.NewApplication(t, w.Owner, vault.ApplicationPrivate, nil)
	_, otherTenant := w.NewTenant(t, "Other")
	_, foreignKey := w.NewApplication(t, otherTenant, vault.ApplicationPrivate, nil)
	seen := map[string]string{}
	for name, call := range map[string][3]string{
		"one":         {"/tokens", w.PrivateKey, `{"type":"token","data":1}`},
		"application": {"/tokens", otherKey, `{"type":"token","data":1}`},
		"tenant":      {"/tokens", foreignKey, `{"type":"token","data":1}`},
		"path":        {"/tokenize", w.PrivateKey, `{"type":"token","data":1}`},
	} {
		id := w.do("POST", call[0], call[1], call[2], idempotencyKey, "same").text(t, "id")
		if other, twice := seen[id]; twice {
			t.Errorf("%s and %s share a key", name, other)
		}
		seen[id] = name
	}
}

func TestIdempotencyChecksThePermissionBeforeAReplay(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	made := w.do("POST", "/applications", w.ManagementKey, `{"name":"x","type":"private","permissions":["token:create"]}`).want(t, 201)
	key, at := made.text(t, "key"), "/applications/"+made.text(t, "id")
	w.do("POST", "/tokens", key, card, idempotencyKey, "k").want(t, 201)
	w.do("PATCH", at, w.ManagementKey, `{"permissions":["token:read"]}`).want(t, 204)
	w.do("POST", "/tokens", key, card, idempotencyKey, "k").wantError(t, 403)
	w.do("DELETE", at, w.ManagementKey, "").want(t, 204)
	w.do("POST", "/tokens", key, card, idempotencyKey, "k").wantError(t, 401)
}

// A successful response that a reactor's code built is stored like any other,
// so the code does not run again. An error response that it built is not
// stored.
func TestResponsesBuiltByCodeAreReplayed(t *testing.T) {
	t.Parallel()
	w := reactorVault(t)
	for status, replayed := range map[int]bool{200: true, 201: true, 302: true, 402: false, 500: false} {
		path := w.newReactor(fmt.Sprintf(`module.exports = async () => {
			throw new CustomHttpResponseError({status: %d, headers: {'X-Pot': 'tea'}, body: {r: require('crypto').randomUUID()}})
		}`, status))
		var answers [2]*response
		for i := range answers {
			r := request(t, path, w.PrivateKey, `{}`)
			r.Header.Set("SVC-IDEMPOTENCY-KEY", "k")
			answers[i] = w.serve(r)
			if got := answers[i]; got.StatusCode != status || got.Header.Get("X-Pot") != "tea" {
				t.Errorf("%d: attempt %d: %d %v", status, i, got.StatusCode, got.Header)
			}
		}
		marked := answers[1].Header.Get("SVC-IDEMPOTENT-REPLAYED") == "true"
		if same := answers[0].body == answers[1].body; same != replayed || marked != replayed {
			t.Errorf("%d: the responses are equal: %v, the second is marked as replayed: %v; want %v", status, same, marked, replayed)
		}
	}
}

func TestOneIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	r := request(t, "/tokens", w.PrivateKey, `{"type":"token","data":"x"}`)
	r.Header["Svc-Idempotency-Key"] = []string{"a", "b"}
	w.serve(r).want(t, 400)
}
