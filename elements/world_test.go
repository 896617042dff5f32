package elements_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }

var (
	desktop = browser.Screen{Width: 800, Height: 600}
	phone   = browser.Screen{Width: 390, Height: 844, Phone: true}
)

// world is a vault with elements, an API, and a page that uses them.
type world struct {
	*vaulttest.Vault
	t              *testing.T
	shop, el, api  *httptest.Server
	around         atomic.Pointer[func(http.ResponseWriter, *http.Request, http.Handler)] // of the elements
	content        atomic.Pointer[string]                                                 // of the page
	policy, origin string
}

// newWorld serves elements until the test ends. change may be nil.
func newWorld(t *testing.T, change func(*elements.Options)) *world {
	t.Helper()
	w := &world{Vault: vaulttest.New(t), t: t, shop: httptest.NewUnstartedServer(nil), el: httptest.NewUnstartedServer(nil)}
	w.origin = "http://" + w.shop.Listener.Addr().String()
	opts := &elements.Options{Origins: []string{w.origin}}
	if change != nil {
		change(opts)
	}
	h := must.Get(elements.Handler(w.Vault.Vault, opts))(t)
	w.el.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if f := w.around.Load(); f != nil {
			(*f)(rw, r, h)
			return
		}
		h.ServeHTTP(rw, r)
	})
	w.api = httptest.NewServer(httpserver.Handler(w.Vault.Vault, &httpserver.Options{Origins: []string{"*"}}))
	w.shop.Config.Handler = http.HandlerFunc(w.servePage)
	w.el.Start()
	w.shop.Start()
	for _, s := range []*httptest.Server{w.shop, w.el, w.api} {
		t.Cleanup(s.Close)
	}
	w.policy = "default-src 'none'; script-src 'self' " + w.el.URL + "; frame-src " + w.el.URL +
		"; style-src 'self'; connect-src 'self' " + w.api.URL + "; require-trusted-types-for 'script'; trusted-types 'none'"
	return w
}

// servePage serves the page, and its scripts below /js/.
func (w *world) servePage(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Security-Policy", w.policy)
	switch r.URL.Path {
	case "/":
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(rw, *w.content.Load())
	case "/record.js":
		rw.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(rw, recordEvents)
	case "/open.js":
		rw.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(rw, `const attach = Element.prototype.attachShadow;
Element.prototype.attachShadow = function () { return window.root = attach.call(this, {mode: 'open'}) };`)
	case "/sandbox.js":
		rw.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(rw, `const create = Document.prototype.createElement;
Document.prototype.createElement = function (name) {
  const made = create.call(this, name);
  if (name === 'iframe') made.setAttribute('sandbox', 'allow-scripts allow-forms');
  return made;
};`)
	case "/heights.js":
		rw.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(rw, `const all = [...document.querySelectorAll('vault-card, vault-cvc, vault-text, vault-reveal')];
window.heights = () => all.map((e) => e.offsetHeight).join();
window.before = heights(); // the frames are not loaded yet
window.readies = 0;
for (const e of all) e.addEventListener('ready', () => { readies += 1 });`)
	case "/hostile.js":
		http.ServeFile(rw, r, "testdata/hostile.js")
	default:
		http.NotFound(rw, r)
	}
}

// recordEvents keeps the events of the first element in window.log. It runs before the
// element is there, so that it misses none.
const recordEvents = `'use strict';
window.log = [];
window.first = null;
Object.defineProperty(window, 'el', {
  get: () => first ??= document.querySelector('vault-card, vault-cvc, vault-text, vault-reveal'),
  set: (value) => Object.defineProperty(window, 'el', {value}),
  configurable: true,
});
for (const name of ['ready', 'change', 'focus', 'blur', 'submit']) {
  document.addEventListener(name, (event) => {
    if (event.target === el && !event.isTrusted) log.push([name, event.detail, event.bubbles, performance.now()]);
  }, true);
}
window.last = (field) => log.findLast(([name, detail]) => name === 'change' && detail.field === field)?.[1];
window.outcome = (promise) => promise.then((value) => JSON.stringify(value ?? null), (e) => [e.code, e instanceof Error, JSON.stringify(e.fields), e.message].join(' | '));
`

// page returns a page with an element. KEY stands for the public key.
func (w *world) page(element string) string {
	return strings.ReplaceAll(`<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Page</title></head>
<body><script src="/record.js"></script><script src="`+w.el.URL+`/elements.js"></script>`+element+`</body></html>`, "KEY", w.PublicKey)
}

// card is the element of most pages.
const card = `<vault-card api-key="KEY"></vault-card>`

// tab is a page in the browser.
type tab struct {
	*browser.Tab
	w *world
}

// open opens a page with an element, and waits until it is ready.
func (w *world) open(s browser.Screen, element string) *tab {
	w.t.Helper()
	p := w.load(s, w.page(element))
	p.Await(`window.log && log.some(([name]) => name === 'ready')`)
	return p
}

// load opens a page.
func (w *world) load(s browser.Screen, content string) *tab {
	w.t.Helper()
	w.content.Store(&content)
	p := &tab{browser.Open(w.t, s), w}
	p.Navigate(w.origin)
	return p
}

// frames returns the documents of the frames of elements.
func (p *tab) frames() []*browser.Tab { return p.Frames(p.w.el.URL + "/frame") }

// frame returns the document of the only frame.
func (p *tab) frame() *browser.Tab {
	p.T.Helper()
	all := p.frames()
	must.Same(p.T, "frames of elements", 1, len(all))
	return all[0]
}

// fill types a card that ends in December 2039.
func (p *tab) fill(number string) {
	p.T.Helper()
	for _, field := range [][2]string{{"number", number}, {"expiry", "1239"}, {"cvc", "123"}} {
		p.focus(field[0])
		p.Press(field[1])
	}
	p.Await(`last('cvc')?.complete`)
}

// focus moves the focus to a field, and waits until keys go there. The frame must have
// handled each request, because it also moves the focus on when a field is complete, and a
// pending request would later take the focus back. The page learns of the focus from the
// browser, which then also sends keys to the frame.
func (p *tab) focus(field string) {
	p.T.Helper()
	end, due := time.Now().Add(time.Minute), p.handled()
	for look := 0; time.Now().Before(end); look++ {
		if look%100 == 0 {
			p.Run(`el.focus('` + field + `')`)
			due++
		}
		if p.handled() < due || p.Value(`String(el.getRootNode().activeElement === el)`) != "true" {
			continue
		}
		for _, f := range p.frames() {
			if f.Value(`String(document.hasFocus() && fields.`+field+`?.input === document.activeElement)`) == "true" {
				return
			}
		}
	}
	p.T.Fatalf("%s does not get the focus", field)
}

// handled returns how many requests for the focus the frames have handled since the first
// call.
func (p *tab) handled() (n int) {
	p.T.Helper()
	for _, f := range p.frames() {
		n += must.Get(strconv.Atoi(f.Value(`(() => {
			if (!Object.hasOwn(window, 'handled')) {
				const take = port.onmessage;
				window.handled = 0;
				port.onmessage = (event) => { take(event); if (event.data?.do === 'focus') handled += 1 };
			}
			return String(handled);
		})()`)))(p.T)
	}
	return n
}

// outcome returns the outcome of a promise: its value, or its code, fields and message.
func (p *tab) outcome(expression string) string {
	p.T.Helper()
	return p.Value(`outcome(` + expression + `)`)
}

// reply is a response.
type reply struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

func (r *reply) names() []string { return slices.Sorted(maps.Keys(r.body)) }

// send sends a request to a server as the frame does, unless header changes it.
func (w *world) send(server *httptest.Server, method, path, key, body string, header ...string) *reply {
	w.t.Helper()
	req := must.Get(http.NewRequestWithContext(w.t.Context(), method, server.URL+path, strings.NewReader(body)))(w.t)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if key != "" {
		req.Header.Set("SVC-API-KEY", key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header[header[i]] = []string{header[i+1]}
		if header[i+1] == "" {
			delete(req.Header, header[i])
		}
	}
	res := must.Get(http.DefaultClient.Do(req))(w.t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(w.t)
	out := &reply{status: res.StatusCode, header: res.Header, text: string(text)}
	_ = json.Unmarshal(text, &out.body) // not every response is an object
	return out
}

// newCard creates a card through elements.
func (w *world) newCard(number string) *reply {
	w.t.Helper()
	r := w.send(w.el, "POST", "/tokens", w.PublicKey, `{"type":"card","data":{"number":"`+number+`","expiration_month":12,"expiration_year":2030,"cvc":"123"}}`)
	must.Same(w.t, r.text, http.StatusCreated, r.status)
	return r
}
