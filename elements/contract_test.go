package elements_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestStrictPage uses each element under the strictest policy that docs/elements.md promises:
// the origin of the elements in script-src and frame-src, and Trusted Types without a policy.
// The scripts of the test come from the page's own origin.
func TestStrictPage(t *testing.T) {
	t.Parallel()
	for element, c := range map[string]struct{ allow, fill, call, want string }{
		card: {"autofill", "", `el.tokenize({deduplicate_token: true, id: 'chosen', type: 'token', fingerprint_expression: '{{ data }}', metadata: {a: 'b'}, expires_at: '2040-01-01T00:00:00Z'})`,
			`"containers,created_at,data,expires_at,id,metadata,type"`},
		`<vault-card api-key="KEY" rows="number" container="/pci/high/x/"></vault-card>`:         {"autofill", "", `el.tokenize()`, `"containers,created_at,data,id,type"`},
		`<vault-cvc api-key="KEY" token="stored-card"></vault-cvc>`:                              {"autofill", "123", `el.update()`, `"containers,id,type"`},
		`<vault-text api-key="KEY" type="social_security_number"></vault-text>`:                  {"autofill", "123-45-6789", `el.tokenize()`, `"containers,created_at,data,id,type"`},
		`<vault-text api-key="KEY" type="token" container="/general/high/secret/"></vault-text>`: {"autofill", "secret text", `el.tokenize({expires_at: new Date(4e12)})`, `"containers,created_at,data,expires_at,id,type"`},
		`<vault-reveal api-key="KEY" token="stored-card" path="$.number"></vault-reveal>`:        {"clipboard-write", "", `el.hide().then((value) => value === undefined ? {hidden: true} : {})`, `"hidden"`},
	} {
		t.Run(element, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.policy = "default-src 'none'; script-src 'self' " + w.el.URL + "; frame-src " + w.el.URL + "; require-trusted-types-for 'script'; trusted-types 'none'"
			must.Get(w.Owner.CreateToken(t.Context(), vault.TokenParams{ID: "stored-card", Type: vault.TypeCard, Data: map[string]any{"number": visa, "cvc": "123"}}))(t)
			page := strings.Replace(w.page(element), "<body>", `<body><script src="/open.js"></script>`, 1)
			p := w.load(desktop, page)
			p.Await(`window.log && log.some(([name]) => name === 'ready')`)
			must.Same(t, element, "1 0 "+w.el.URL+"/frame  "+c.allow, p.Value(`(() => { const all = root.querySelectorAll('iframe'); return [all.length, window.length, all[0].src, all[0].name, all[0].allow].join(' ') })()`))
			switch {
			case c.fill != "":
				p.focus(map[bool]string{true: "cvc", false: "text"}[c.call == `el.update()`])
				p.Press(c.fill)
				p.Await(`log.findLast(([name]) => name === 'change')?.[1].valid`)
			case strings.Contains(element, "rows"):
				p.focus("number")
				p.Press(visa)
				p.Await(`last('number')?.valid`)
			case strings.Contains(element, "card "):
				p.fill(visa)
			}
			must.Same(t, element, c.want, p.outcome(c.call+`.then((value) => Object.keys(value).sort().join())`))
		})
	}
}

// TestEachFailureSaysWhatToDo checks the code, the fields and the text in the console of each
// failure, and that what was typed stays.
func TestEachFailureSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.open(desktop, card)
	p.Provoked = true
	p.fill(visa)
	answer := func(status int, body string) func() {
		return func() {
			f := func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.URL.Path != "/tokens" {
					next.ServeHTTP(rw, r)
					return
				}
				rw.WriteHeader(status)
				fmt.Fprint(rw, body)
			}
			w.around.Store(&f)
		}
	}
	page := func(script string) func() { return func() { p.Run(script) } }
	for _, c := range []struct {
		set              func()
		call, want, says string
	}{
		{nil, `(window.early = el.tokenize(), el.tokenize())`, "busy | true | {} | ", "The element is busy with an earlier call. Wait for it."},
		{nil, `el.tokenize({metadata: {a: 7}})`, `invalid | true | {"metadata":"invalid"} | `, "An option of the call or an attribute of the element is wrong: metadata."},
		{nil, `el.tokenize({metadata: {f() {}}})`, "invalid | true | {} | ", "could not be cloned"},
		{page(`el.setAttribute('container', 'nowhere')`), `el.tokenize()`, `invalid | true | {"container":"invalid"} | `, "is wrong: container."},
		{page(`el.removeAttribute('container'); el.setAttribute('rows', 'number | number')`), `el.tokenize()`, `invalid | true | {"rows":"invalid"} | `, "rows must name"},
		{page(`el.removeAttribute('rows'); el.setAttribute('api-key', 'key_prv_` + strings.Repeat("1", 38) + `')`), `el.tokenize()`, `refused | true | {"api-key":"invalid"} | `, "api-key is not a public key. A page must never have another key"},
		{page(`el.setAttribute('api-key', '` + w.PublicKey + `')`), `el.tokenize()`, `{"id":`, ""},
		{answer(429, `{}`), `el.tokenize()`, "busy | true | {} | ", "Try again in a moment"},
		{answer(403, `{}`), `el.tokenize()`, "refused | true | {} | ", "Check its permissions"},
		{answer(500, `{}`), `el.tokenize()`, "unreachable | true | {} | ", "The token may have been created"},
		{answer(200, `not JSON`), `el.tokenize()`, "unreachable | true | {} | ", "The server cannot be reached"},
		{page(`el.authorize = async () => {}`), `el.tokenize()`, "unreachable | true", "The server cannot be reached"},
		{answer(401, `{}`), `el.tokenize()`, "expired | true | {} | ", "The session has expired. Call again."},
		{answer(403, `{}`), `el.tokenize()`, "unauthorized | true | {} | ", "what authorize granted"},
		{page(`el.authorize = () => { throw new Error('no') }`), `el.tokenize()`, "refused | true | {} | ", "authorize failed"},
		{page(`el.authorize = null`), `el.tokenize()`, "refused | true", "Check its permissions"},
		{page(`window.copy = document.createElement('vault-card')`), `copy.tokenize()`, "unreachable | true | {} | ", "Append it first."},
	} {
		if c.set != nil {
			c.set()
		}
		if got := p.outcome(c.call); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.call, got, c.want)
		}
		if c.says != "" {
			p.AwaitComplaint(c.says)
		}
		p.Value(`outcome(window.early)`)
	}
	must.Same(t, "what was typed", "4242 4242 4242 4242 12 / 39 123", p.frame().Value(`[...document.querySelectorAll('.box input')].map((i) => i.value).join(' ')`))

	// An element that is removed while it works. One that has nothing to do may go silently.
	stuck, end := make(chan struct{}, 1), make(chan struct{})
	defer close(end)
	wait := func(http.ResponseWriter, *http.Request, http.Handler) {
		stuck <- struct{}{}
		<-end
	}
	w.around.Store(&wait)
	p.Run(`window.removed = outcome(el.tokenize())`)
	<-stuck
	p.Run(`el.remove()`)
	must.Contain(t, "removed", p.Value(`removed`), "unreachable | true | {} | ")
	p.AwaitComplaint("Remove it when the promise is settled.")
	w.around.Store(nil)
	p.Run(`log.length = 0; document.body.append(el)`)
	p.until(`log.some(([name]) => name === 'ready')`)
	p.Complaints()
	p.Run(`el.remove()`)
	for _, text := range p.Complaints() {
		must.Lack(t, "the console", text, "was removed")
	}
}

// TestBrandTellsNoDigitEarly types beginnings of numbers whose brand is decided by another
// digit. A page that counts keys must not learn which one.
func TestBrandTellsNoDigitEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *elements.Options) { o.ShowBIN = true })
	p := w.open(desktop, card)
	for beginning, brand := range map[string]string{"222100": "mastercard", "510000": "mastercard", "305900": "diners-club", "309500": "diners-club", "627780": "elo", "401178": "elo", "650031": "elo", "650000": "discover"} {
		p.Run(`el.clear()`)
		p.until(`!last('number') || last('number').empty`)
		p.Run(`log.length = 0`)
		p.focus("number")
		p.Press(beginning)
		p.until(`last('number')?.brand === '` + brand + `'`)
		must.Same(t, beginning, "unknown,"+brand, p.Value(`log.filter(([name, detail]) => name === 'change' && detail.field === 'number' && !detail.empty).map(([, detail]) => detail.brand).join()`))
	}
}

// TestLookOfEachState sets properties of each state, and reads what the frame shows.
func TestLookOfEachState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.open(desktop, card)
	f := p.frame()
	p.Run(`el.look = {
		base: {fontSize: '18px', padding: '3px 5px', borderWidth: '2px', outlineColor: 'rgb(9, 9, 9)', gap: '7px'},
		focus: {fontWeight: '700', fontSize: '20px', borderWidth: '4px', borderRadius: '1px', letterSpacing: '2px', caretColor: 'rgb(1, 2, 3)', lineHeight: '2', padding: '6px 9px', backgroundColor: 'rgb(4, 5, 6)', color: 'rgb(7, 8, 9)'},
		invalid: {fontStyle: 'italic', borderColor: 'rgb(255, 0, 9)', borderRadius: '2px', letterSpacing: '3px'},
		placeholder: {fontSize: '12px', letterSpacing: '4px', color: 'rgb(3, 3, 3)'},
	}`)
	p.outcome(`el.tokenize()`)
	p.focus("number")
	style := func(id, pseudo, names string) string {
		return f.Value(`(() => { const s = getComputedStyle(document.getElementById('` + id + `'), '` + pseudo + `'); return '` + names + `'.split(' ').map((name) => s[name]).join(' ') })()`)
	}
	must.Same(t, "the focus", "700 20px 4px 1px 2px rgb(1, 2, 3) 40px 9px rgb(4, 5, 6) rgb(7, 8, 9) rgb(9, 9, 9)",
		style("cc-number", "", "fontWeight fontSize borderTopWidth borderTopLeftRadius letterSpacing caretColor lineHeight paddingLeft backgroundColor color outlineColor"))
	must.Same(t, "an invalid field", "italic 2px 3px 2px 5px 18px", style("cc-csc", "", "fontStyle borderTopLeftRadius letterSpacing borderTopWidth paddingLeft fontSize"))
	f.Await(`getComputedStyle(document.getElementById('cc-csc')).borderTopColor === 'rgb(255, 0, 9)'`) // after a transition
	must.Same(t, "a placeholder", "12px 4px rgb(3, 3, 3)", style("cc-csc", "::placeholder", "fontSize letterSpacing color"))
	must.Same(t, "the gap", "7px", f.Value(`getComputedStyle(document.querySelector('.all')).rowGap`))
	p.Run(`el.look = null`)
	f.Await(`getComputedStyle(document.getElementById('cc-number')).fontSize === '16px'`)
}
