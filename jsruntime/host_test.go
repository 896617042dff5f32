package jsruntime_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

// echo responds to every call with its operation and arguments.
func echo(_ context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(fmt.Sprintf(`{"op":%q,"args":%s}`, op, args)), nil
}

func TestClientCalls(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		for expression, want := range map[string]string{
			`bt.tokens.create({ type: 'card', data: { cardNumber: '1' }, metadata: { myKey: 'v' }, searchIndexes: ['x'], fingerprintExpression: 'y' })`: `tokens.create {"type":"card","data":{"cardNumber":"1"},"metadata":{"myKey":"v"},"search_indexes":["x"],"fingerprint_expression":"y"}`,
			`bt.tokens.retrieve('id')`:                                       `tokens.retrieve {"id":"id"}`,
			`bt.tokens.update('id', { data: { aB: 1 }, expiresAt: null })`:   `tokens.update {"id":"id","patch":{"data":{"aB":1},"expires_at":null}}`,
			`bt.tokens.delete('id')`:                                         `tokens.delete {"id":"id"}`,
			`bt.tokens.list({ type: ['card'], page: 2 })`:                    `tokens.list {"type":["card"],"page":2}`,
			`bt.tokens.list()`:                                               `tokens.list {}`,
			`bt.tokens.search({ query: 'q', size: 5 })`:                      `tokens.search {"query":"q","size":5}`,
			`bt.tokenize({ aB: 'x' })`:                                       `tokenize {"aB":"x"}`,
			`bt.detokenize(['{{x}}'])`:                                       `detokenize ["{{x}}"]`,
			`bt.reactors.react('id', { args: { aB: 1 }, callbackUrl: 'u' })`: `reactors.react {"id":"id","body":{"args":{"aB":1},"callback_url":"u"}}`,
			`bt.proxy.post({ path: '/x', body: { aB: 1 } })`:                 `proxy.post {"path":"/x","body":{"aB":1}}`,
			`bt.logs.list({ entityType: 'token' })`:                          `logs.list {"entity_type":"token"}`,
			`bt.sessions.create()`:                                           `sessions.create {}`,
			`bt.sessions.authorize({ nonce: 'n', expiresAt: 'e' })`:          `sessions.authorize {"nonce":"n","expires_at":"e"}`,
		} {
			t.Run(expression, func(t *testing.T) {
				t.Parallel()
				source := "module.exports = async ({ bt }) => { const r = await " + expression + "; return [r.op, r.args] }"
				out, err := run(r, source, `{"application":true}`, &fakeHost{answer: func(_ context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
					return json.Marshal(map[string]string{"op": op, "args": string(args)})
				}})
				var got []string
				if err == nil {
					err = json.Unmarshal([]byte(out), &got)
				}
				if err != nil || strings.Join(got, " ") != want {
					t.Errorf("got %s, %s, want %s", got, explain(err), want)
				}
			})
		}
	})
}

func TestClientResults(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		host := &fakeHost{answer: func(_ context.Context, op string, _ json.RawMessage) (json.RawMessage, error) {
			switch op {
			case "tokens.list":
				return json.RawMessage(`{"pagination":{"total_items":1},"data":[{"tenant_id":"t","data":{"a_b":1},"metadata":{"c_d":"e"}}]}`), nil
			case "tokens.retrieve":
				return nil, fmt.Errorf("wrapped: %w", &script.HostError{Status: 404, Message: "There is no such token."})
			case "tokens.update":
				return nil, &script.HostError{Status: 400, Message: "bad request", Errors: map[string][]string{"data.number": {"is bad"}}}
			case "tokens.delete":
				return nil, errors.New("secret of the database")
			case "logs.list":
				panic("host bug")
			}
			return json.RawMessage(`{"created_at":"x","a_b":{"c_d":1}}`), nil
		}}
		source := `module.exports = async ({ bt }) => {
			const fail = (p) => p.catch((e) => [e instanceof Error, e.status, e.message, e.errors]);
			return [await bt.tokens.list(), await bt.tokens.create({}), await bt.tokenize({}),
				await fail(bt.tokens.retrieve('x')), await fail(bt.tokens.update('x', {})), await fail(bt.tokens.delete('x')), await fail(bt.logs.list())];
		}`
		out, err := run(r, source, `{"application":true}`, host)
		want := `[{"pagination":{"totalItems":1},"data":[{"tenantId":"t","data":{"a_b":1},"metadata":{"c_d":"e"}}]},` +
			`{"createdAt":"x","aB":{"cD":1}},{"created_at":"x","a_b":{"c_d":1}},` +
			`[true,404,"There is no such token.",null],[true,400,"bad request",{"data.number":["is bad"]}],` +
			`[true,500,"the operation failed",null],[true,500,"the operation failed",null]]`
		must.Same(t, explain(err), want, out)
	})
}

// web is a host that responds to fetch like a small web server.
func web(_ context.Context, op string, args json.RawMessage) (json.RawMessage, error) {
	var req struct {
		Method, URL, Body string
		Headers           [][2]string
	}
	if err := json.Unmarshal(args, &req); err != nil || op != "fetch" {
		return nil, errors.New("unexpected call")
	}
	answer := map[string]any{"status": 200, "status_text": "OK", "headers": [][2]string{{"Content-Type", "application/json"}, {"X-A", "1"}, {"X-A", "2"}}}
	body, _ := base64.StdEncoding.DecodeString(req.Body)
	text, _ := json.Marshal(map[string]any{"method": req.Method, "url": req.URL, "headers": req.Headers, "body": string(body)})
	switch {
	case strings.HasSuffix(req.URL, "/missing"):
		answer["status"], text = 404, []byte(`{"error":"missing"}`)
	case strings.HasSuffix(req.URL, "/moved"):
		answer["status"], answer["headers"] = 302, [][2]string{{"Location", "https://other.example/there"}}
	case strings.HasSuffix(req.URL, "/down"):
		return nil, &script.HostError{Code: "ECONNREFUSED", Message: "connect ECONNREFUSED"}
	}
	answer["body"] = base64.StdEncoding.EncodeToString(text)
	return json.Marshal(answer)
}

func TestHTTPClients(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		testCorpora(t, r, &fakeHost{answer: web}, "http.jsonl")
	})
}

func TestConsole(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		host := &fakeHost{}
		_, err := run(r, `module.exports = () => { console.log('a', { b: 1 }, [2]); console.warn('%s-%d', 'x', 3); console.error(new Error('e').message); console.debug(); process.stdout.write('out\n') }`, "", host)
		want := []string{"log: a { b: 1 } [ 2 ]", "warn: x-3", "error: e", "debug: ", "info: out"}
		if diff := cmp.Diff(want, host.lines); diff != "" || err != nil {
			t.Errorf("%s (-want +got)\n%s", explain(err), diff)
		}
		host = &fakeHost{}
		if _, err = run(r, `module.exports = () => { for (let i = 0; i < 1e4; i++) console.log('x'.repeat(1000)) }`, "", host); err != nil {
			t.Error(explain(err))
		}
		if size := len(strings.Join(host.lines, "")); size > 80<<10 || size < 60<<10 {
			t.Errorf("the console let %d bytes through, want about 64 KiB", size)
		}
	})
}

func TestHostCallLimit(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		got, err := run(r, `module.exports = async ({ bt }) => {
			const all = await Promise.allSettled(Array.from({ length: 70 }, (_, i) => bt.tokenize(i)));
			return [all.filter((r) => r.status === 'fulfilled').length, all.find((r) => r.status === 'rejected').reason.code];
		}`, `{"application":true}`, &fakeHost{answer: echo})
		if got != `[64,"ERR_TOO_MANY_CALLS"]` {
			t.Errorf("got %s, %s", got, explain(err))
		}
	})
}

// badLog is a host whose log fails, which no host's should.
type badLog struct {
	fakeHost
	fail func()
}

func (h *badLog) Log(script.Line) { h.fail() }

// TestPanickingLogDoesNotAffectTheRun uses a console that panics. The run is not affected.
func TestPanickingLogDoesNotAffectTheRun(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		for name, fail := range map[string]func(){
			"text":    func() { panic("4242424242424242") },
			"error":   func() { panic(errors.New("4242424242424242")) },
			"runtime": func() { _, _ = new(fakeHost).answer(context.Background(), "", nil) },
		} {
			out := must.Get(run(r, "module.exports = () => { console.log('x'); return 1 }", "{}", &badLog{fail: fail}))(t)
			must.Same(t, name, "1", out)
		}
	})
}

// TestCallsWithinArgumentsCount makes calls while the arguments of other calls are
// serialized. They count too.
func TestCallsWithinArgumentsCount(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		host, begun, release := blocking()
		const source = `
			const nest = (bt, n) => ({ toJSON() {
				if (n > 0) bt.tokenize(nest(bt, n - 1)).then(() => {}, () => {})
				return n
			} })
			module.exports = ({ bt }) => bt.tokenize(nest(bt, 99)).catch((e) => e.code)`
		close(release)
		out, err := run(r, source, `{"application":true}`, host)
		if err != nil || out != `"ERR_TOO_MANY_CALLS"` || len(begun) > 64 {
			t.Errorf("got %s, %s after %d calls, want the last of 100 rejected, and 64 made", out, explain(err), len(begun))
		}
	})
}
