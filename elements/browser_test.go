package elements_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

func TestCard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *elements.Options) {
		o.ShowBIN = true
		o.Networks = func(bin string) []string {
			if strings.HasPrefix(bin, "497010") {
				return []string{"cartes_bancaires", "visa"}
			}
			return nil
		}
	})
	p := w.open(phone, card)
	f := p.frame()
	value := func(id string) string { return f.Value(`document.getElementById('` + id + `').value`) }
	must.Same(t, "tokens of autofill", "cc-number cc-number cc-number|cc-exp cc-exp cc-exp|cc-csc cc-csc cc-csc",
		f.Value(`[...document.forms[0].querySelectorAll('.box input')].map((i) => [i.id, i.name, i.autocomplete].join(' ')).join('|')`))
	must.Same(t, "patterns and keyboards", "numeric next|numeric next|numeric done",
		f.Value(`[...document.querySelectorAll('.box input')].map((i) => i.getAttribute('pattern') ?? [i.inputMode, i.enterKeyHint].join(' ')).join('|')`))
	must.Same(t, "16 px on touch", "16px", f.Value(`getComputedStyle(document.querySelector('input')).fontSize`))

	// Empty fields have messages beside them, and the first one has the focus.
	must.Same(t, "empty", `invalid | true | {"number":"number_required","expiry":"expiry_required","cvc":"cvc_required"} | Fields are missing or wrong; fields says which.`, p.outcome(`el.tokenize()`))
	must.Same(t, "the message", "Enter the card number.", f.Value(`document.getElementById(document.activeElement.getAttribute('aria-describedby')).textContent + (document.activeElement.ariaInvalid === 'true' ? '' : ' valid')`))

	// The focus moves on when a field is complete, and back from an empty field.
	p.focus("number")
	p.Press("4970100000000154123")
	p.until(`last('expiry')?.empty === false && last('number').networks?.length === 2`)
	must.Same(t, "formatted", "4970 1000 0000 0154 12 / 3", value("cc-number")+" "+value("cc-exp"))
	must.Same(t, "the number", `{"field":"number","empty":false,"complete":true,"valid":true,"error":null,"brand":"visa","last4":"0154","bin":"497010","networks":["cartes_bancaires","visa"]}`, p.Value(`JSON.stringify(last('number'))`))
	p.Press("4")
	p.until(`last('expiry').complete`)
	p.Press("212")
	p.until(`last('cvc')?.complete`)
	must.Same(t, "all", "12 / 34 212", value("cc-exp")+" "+value("cc-csc"))
	f.Run(`document.querySelector('[value=visa]').click()`)
	must.Contain(t, "the network", p.outcome(`el.tokenize({metadata: {order: '7'}})`), `"metadata":{"network":"visa","order":"7"}`)

	// What was typed stays until clear().
	must.Same(t, "it stays", "4970 1000 0000 0154", value("cc-number"))
	p.Run(`el.clear()`)
	p.until(`last('number').empty && last('cvc').empty`)
	must.Same(t, "it is gone", "", value("cc-number")+value("cc-exp")+value("cc-csc"))
	p.focus("expiry")
	p.Press(kb.Backspace + "4")
	p.until(`last('number').empty === false`)
	p.Press(kb.Enter)
	p.until(`log.some(([name]) => name === 'submit')`)
	must.Same(t, "events that bubble", "0", p.Value(`String(log.filter(([, , bubbles]) => bubbles).length)`))

	// Other ways to write a date, and numbers with spaces.
	for _, c := range [][3]string{
		{"cc-exp", "12/2034", "12 / 34"}, {"cc-exp", "2034-12", "12 / 34"}, {"cc-exp", "5/34", "05 / 34"}, {"cc-exp", "0534", "05 / 34"}, {"cc-exp", "122034", "12 / 34"},
		{"cc-number", " 6304 0000 0000 0000 000 ", "6304 0000 0000 0000 000"}, {"cc-number", "3782-822463-10005", "3782 822463 10005"},
	} {
		f.Run(fmt.Sprintf(`(() => { const i = document.getElementById(%q); i.value = %q; i.dispatchEvent(new InputEvent('input', {inputType: 'insertFromPaste'})); i.value = i.value; })()`, c[0], c[1]))
		must.Same(t, c[1], c[2], value(c[0]))
	}
	must.Same(t, "the code of this brand", "4", f.Value(`String(cvcLengths())`))
}

// TestCaretStays is about typing in the middle of a number.
func TestCaretStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.open(desktop, card)
	f := p.frame()
	p.focus("number")
	left := kb.ArrowLeft
	for _, step := range []struct{ keys, want string }{ // | is the caret
		{"42425", "4242 5|"}, {left + left, "4242| 5"}, {"9", "4242 9|5"}, {kb.Backspace, "4242| 5"},
		{kb.ArrowRight + kb.Backspace, "424|5"}, {"2", "4242| 5"}, {kb.Delete, "4242|"},
		{kb.Home + kb.Delete + "37", "37|24 2"}, {kb.End + "123456789", "3724 212345 6789|"},
	} {
		p.Press(step.keys)
		must.Same(t, "after "+step.keys, step.want, f.Value(`(() => { const {value: v, selectionStart: i} = document.activeElement; return v.slice(0, i) + '|' + v.slice(i) })()`))
	}
	must.Same(t, "drags and copies", "true true true", f.Value(`['dragstart', 'copy', 'cut'].map((name) => !document.activeElement.dispatchEvent(new Event(name, {bubbles: true, cancelable: true}))).join(' ')`))
}

func TestLanguagesAndLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.open(desktop, `<div dir="rtl"><vault-card lang="de" api-key="KEY" rows="number expiry | cvc" disabled></vault-card></div>`)
	f := p.frame()
	must.Same(t, "labels", "Kartennummer,Gültig bis,Prüfnummer", f.Value(`[...document.querySelectorAll('label')].map((l) => l.textContent).join()`))
	must.Same(t, "rows", "2,1 rtl de true", f.Value(`[...document.querySelectorAll('.row')].map((r) => r.children.length).join() + ' ' + document.dir + ' ' + document.documentElement.lang + ' ' + document.querySelector('input').matches(':disabled')`))
	must.Same(t, "a German text from right to left", "plaintext right", f.Value(`(() => { const {unicodeBidi, textAlign} = getComputedStyle(document.querySelector('.error')); return unicodeBidi + ' ' + textAlign })()`))
	p.Run(`el.texts = {labels: {number: 'N°'}, messages: {cvc_required: 'Bitte'}}; el.look = {base: {color: 'rgb(1, 2, 3)', 'font-size': '20px'}, placeholder: {color: 'red'}}; el.disabled = false; el.lang = 'en'`)
	f.Await(`document.querySelector('label').textContent === 'N°' && document.documentElement.lang === 'en'`)
	must.Same(t, "look", "rgb(1, 2, 3) 20px rgb(255, 0, 0)", f.Value(`(() => { const i = document.querySelector('input'); return [getComputedStyle(i).color, getComputedStyle(i).fontSize, getComputedStyle(i, '::placeholder').color].join(' ') })()`))
	must.Contain(t, "a message of the page", p.outcome(`el.tokenize()`), "cvc_required")
	must.Same(t, "a message of the page", "Bitte", f.Value(`document.getElementById('cc-csc-error').textContent`))
	for _, bad := range []string{
		`look = {hover: {}}`, `look = {base: {position: 'fixed'}}`, `look = {base: {backgroundImage: 'none'}}`, `look = {base: {color: 'url(x)'}}`, `look = {base: {color: 'red;'}}`,
		`look = {base: {color: 'a{'}}`, `look = {base: {color: 'a}'}}`, `look = {base: {color: 'a\\\\'}}`, `look = {base: {color: {}}}`, `look = 7`, `look = {base: 'red'}`,
		`texts = {label: {}}`, `texts = {labels: {name: 'x'}}`, `texts = {labels: {number: 7}}`, `authorize = 'x'`,
	} {
		must.Same(t, bad, "TypeError", p.Value(`(() => { try { el.`+bad+`; return 'accepted' } catch (e) { return e.name } })()`))
	}
	must.Same(t, "the look stays", "rgb(1, 2, 3)", p.Value(`el.look.base.color`))
}

// TestAuthorize opens a session that the page's server authorizes.
func TestAuthorize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	shop := w.shop.Config.Handler
	ours := authorize(must.Get(vaultclient.New(w.api.URL, w.PrivateKey, nil))(t), func(*http.Request) string { return "/pci/orders/" })
	w.shop.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/nonce" {
			ours.ServeHTTP(rw, r)
			return
		}
		shop.ServeHTTP(rw, r)
	})
	p := w.open(desktop, `<vault-card api-key="KEY" container="/pci/orders/7/"></vault-card>`)
	p.Provoked = true
	p.fill(visa)
	p.Run(`el.authorize = async (nonce) => { await fetch('/nonce', {method: 'POST', body: nonce}) }`)
	got := p.outcome(`el.tokenize().then((token) => { window.token = token; return token })`)
	must.Contain(t, "the token", got, `"containers":["/pci/orders/7/"]`)
	p.Run(`el.authorize = async () => { throw new Error('no') }`)
	must.Contain(t, "a refusal of the page", p.outcome(`el.tokenize()`), "refused | true | {} | authorize failed.")
	p.Run(`el.authorize = async () => {}`)
	must.Contain(t, "a session that nobody authorized", p.outcome(`el.tokenize()`), "unauthorized | true | {}")

	// A new code for the card. Its session may update the token.
	w.shop.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		nonce := must.Get(io.ReadAll(r.Body))(t)
		must.Do(t, w.Private.AuthorizeSession(r.Context(), vault.SessionGrant{Nonce: string(nonce), Permissions: []vault.Permission{"token:update"}}))
	})
	p.Run(`(() => { const e = document.createElement('vault-cvc'); e.setAttribute('api-key', el.getAttribute('api-key')); e.setAttribute('token', token.id);
		e.authorize = async (nonce) => { await fetch('/nonce', {method: 'POST', body: nonce}) }; document.body.append(e);
		log.length = 0; window.el = e; for (const name of ['ready', 'change', 'focus', 'blur']) e.addEventListener(name, (event) => log.push([name, event.detail, event.bubbles])) })()`)
	p.until(`log.some(([name]) => name === 'ready')`)
	must.Contain(t, "without a code", p.outcome(`el.update()`), `invalid | true | {"cvc":"cvc_required"}`)
	p.focus("cvc")
	p.Press("987")
	p.until(`last('cvc')?.complete`)
	must.Contain(t, "the answer", p.outcome(`el.update()`), `"type":"card"`)
	id := p.Value(`token.id`)
	plain := must.Get(w.Owner.GetToken(t.Context(), id))(t)
	must.Contain(t, "the new code", string(plain.Data), `"cvc":"987"`)
}

// TestBadInput is about everything that can be wrong around an element.
func TestBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.open(desktop, card)
	p.Provoked = true
	p.fill(visa)
	for _, c := range []struct{ set, want string }{
		{`el.setAttribute('api-key', '')`, "unauthorized | true"},
		{`el.setAttribute('api-key', 'secret')`, "unauthorized | true"},
		{`el.setAttribute('api-key', 'key_pub_1111')`, "unauthorized | true"},
		{fmt.Sprintf(`el.setAttribute('api-key', %q)`, w.PrivateKey), "refused | true"},
		{fmt.Sprintf(`el.setAttribute('api-key', %q)`, w.PublicKey), `{"id":`},
		{`el.setAttribute('rows', 'expiry')`, "invalid | true"},
		{`el.setAttribute('rows', 'number | name')`, "invalid | true"},
		{`el.setAttribute('rows', 'number | expiry cvc')`, `{"id":`},
		{`el.setAttribute('container', 'not a container')`, "invalid | true"},
		{`el.removeAttribute('container')`, `{"id":`},
	} {
		p.Run(c.set)
		got := p.outcome(`el.tokenize()`)
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s", c.set, got)
		}
	}
	must.Contain(t, "metadata", p.outcome(`el.tokenize({metadata: {a: 7}})`), `invalid | true | {"metadata":"invalid"}`)
	must.Contain(t, "metadata", p.outcome(`el.tokenize({metadata: {f() {}}})`), `invalid | true`)
	must.Contain(t, "a date", p.outcome(`el.tokenize({expires_at: '1999-01-01'})`), `invalid | true | {"expires_at":"invalid"}`)
	must.Contain(t, "twice", p.Value(`Promise.all([outcome(el.tokenize()), outcome(el.tokenize())]).then((both) => both[1])`), "busy | true")
	must.Same(t, "nothing was lost", "4242 4242 4242 4242", p.frame().Value(`document.getElementById('cc-number').value`))

	// The server is slow, down, or refuses.
	for status, want := range map[int]string{429: "busy", 503: "busy", 500: "unreachable", 403: "refused", 401: "unauthorized", 409: "refused"} {
		answer := func(rw http.ResponseWriter, _ *http.Request, _ http.Handler) {
			rw.WriteHeader(status)
			fmt.Fprint(rw, `{}`)
		}
		w.around.Store(&answer)
		must.Contain(t, http.StatusText(status), p.outcome(`el.tokenize()`), want+" | true")
	}
	cut := func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
	w.around.Store(&cut)
	must.Contain(t, "no response", p.outcome(`el.tokenize()`), "unreachable | true")

	// An element that is removed while it works. The request waits for the end of the test.
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
	must.Contain(t, "removed", p.Value(`removed`), "unreachable | true")
	must.Contain(t, "not in the page", p.outcome(`el.tokenize()`), "unreachable | true")
	w.around.Store(nil)

	// A revoked key, two elements, and a frame that is sent elsewhere.
	p.Run(`log.length = 0; document.body.append(el)`)
	p.until(`log.some(([name]) => name === 'ready')`)
	must.Get(w.Owner.RegenerateKey(t.Context(), w.Public.ApplicationID()))(t)
	p.fill(visa)
	must.Contain(t, "a revoked key", p.outcome(`el.tokenize()`), "unauthorized | true")
	p.AwaitComplaint("The server does not know the API key.")
}

// TestFrameSentElsewhere has a page that loads another document into the frame.
func TestFrameSentElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.policy = strings.Replace(w.policy, "frame-src ", "frame-src 'self' ", 1)
	page := strings.Replace(w.page(card), "<body>", `<body><script src="/hostile.js"></script>`, 1)
	p := w.load(desktop, page)
	p.Provoked = true
	p.until(`log.some(([name]) => name === 'ready')`)
	p.Run(`window.call = null; root.querySelector('iframe').src = '/nothing'`)
	p.AwaitComplaint("The frame was loaded again")
	p.AwaitComplaint("does not respond. Check that the server runs, that " + w.origin + " is listed in its --elements-origins")
	must.Contain(t, "the call", p.outcome(`el.tokenize()`), "unreachable | true")
}

// TestSandboxedFrame has a page that takes the frame's origin away. Nothing is sent to it.
func TestSandboxedFrame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var calls atomic.Int32
	count := func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPost {
			calls.Add(1)
		}
		next.ServeHTTP(rw, r)
	}
	w.around.Store(&count)
	p := w.load(desktop, strings.Replace(w.page(card), "<body>", `<body><script src="/sandbox.js"></script>`, 1))
	p.Provoked = true
	must.Contain(t, "the call", p.outcome(`el.tokenize()`), "unreachable | true | {} | The frame")
	p.AwaitComplaint("does not respond. Check that the server runs")
	must.Same(t, "events of the frame", "0", p.Value(`String(log.length)`))
	must.Same(t, "calls of the frame", int32(0), calls.Load())
}

// TestReveal shows a value with the handler of docs/elements.md.
func TestReveal(t *testing.T) {
	t.Parallel()
	ask := httptest.NewUnstartedServer(nil)
	w := newWorld(t, func(o *elements.Options) {
		o.AuthorizeURL, o.Copy = "http://"+ask.Listener.Addr().String()+"/authorize", true
	})
	ask.Config.Handler = authorizeReads(must.Get(vaultclient.New(w.api.URL, w.PrivateKey, nil))(t), w.el.URL, func(r *http.Request, token string) bool {
		cookie, err := r.Cookie("user")
		return err == nil && cookie.Value == "jane" && token != "forbidden"
	})
	ask.Start()
	t.Cleanup(ask.Close)
	id, _ := w.newCard(secretNumber).body["id"].(string)
	p := w.load(desktop, strings.Replace(w.page(`<vault-reveal api-key="KEY" token="`+id+`" path="$.number"></vault-reveal>`), "<body>", `<body><script src="/hostile.js"></script>`, 1))
	p.Provoked = true
	p.until(`log.some(([name]) => name === 'ready')`)
	f := p.frame()
	height := p.Value(`String(el.offsetHeight)`)
	must.Contain(t, "without a cookie", p.outcome(`el.reveal()`), "unauthorized | true | {} | The server at --elements-authorize did not allow this.")
	p.Run(`document.cookie = 'user=jane'`)
	must.Same(t, "the answer", "null", p.outcome(`el.reveal()`))
	must.Same(t, "the value", secretNumber, f.Value(`document.querySelector('.value').textContent`))
	must.Same(t, "selection, font", "none true", f.Value(`getComputedStyle(document.querySelector('.value')).userSelect + ' ' + getComputedStyle(document.querySelector('.value')).fontFamily.includes('monospace')`))
	must.Same(t, "a copy button", "Copy", f.Value(`document.querySelector('button:not([hidden])').textContent`))
	p.Run(`look()`)
	record := p.Value(`seen.join('\n')`)
	noDigits(t, record, secretNumber, false)
	must.Lack(t, "the record", record, "key_sess")
	must.Same(t, "hidden", "null", p.outcome(`el.hide()`))
	must.Lack(t, "the frame", f.Value(`document.body.innerHTML`), secretNumber[6:])
	for attributes, want := range map[string]string{
		`el.setAttribute('path', '$.nothing')`:  `null`, // the page must not learn which fields there are
		`el.setAttribute('path', '$')`:          `null`,
		`el.setAttribute('path', '$..*')`:       `invalid | true | {"path":"invalid"}`,
		`el.setAttribute('token', 'forbidden')`: `unauthorized | true`,
		`el.setAttribute('token', 'nothing')`:   `refused | true`,
	} {
		p.Run(`el.setAttribute('path', '$.number'); el.setAttribute('token', '` + id + `'); ` + attributes)
		must.Contain(t, attributes, p.outcome(`el.reveal()`), want)
		if want == "null" {
			must.Same(t, attributes, "No value", f.Value(`document.querySelector('.value').textContent`))
		}
	}

	// Another token hides the value. So does hide, also while reveal is at work.
	veil := strings.Repeat("•", 8)
	p.Run(`el.setAttribute('token', '` + id + `'); el.setAttribute('path', '$.number')`)
	must.Same(t, "shown again", "null", p.outcome(`el.reveal()`))
	p.Run(`el.setAttribute('path', '$.expiration_year')`)
	f.Await(`document.querySelector('.value').textContent === '` + veil + `'`)
	asked, goOn := make(chan struct{}), make(chan struct{})
	wait := func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/tokens/") {
			close(asked)
			<-goOn
		}
		next.ServeHTTP(rw, r)
	}
	w.around.Store(&wait)
	p.Run(`window.late = outcome(el.reveal())`)
	<-asked
	must.Same(t, "hidden", "null", p.outcome(`el.hide()`))
	close(goOn)
	must.Same(t, "the late answer", "null", p.Value(`late`))
	must.Same(t, "it stays hidden", veil, f.Value(`document.querySelector('.value').textContent`))
	w.around.Store(nil)

	// Numbers are shown as they were stored. Neither Tab nor a wheel reveals their length.
	exact, err := w.Owner.CreateToken(t.Context(), vault.TokenParams{Type: "token", Data: map[string]any{"a": json.RawMessage(`12345678901234567890`), "b": json.RawMessage(`1.10`), "c": true}})
	must.Do(t, err)
	for path, want := range map[string]string{"$.a": "12345678901234567890", "$.b": "1.10", "$['c']": "true"} {
		p.Run(`el.setAttribute('token', '` + exact.ID + `'); el.setAttribute('path', "` + path + `")`)
		must.Same(t, path, "null", p.outcome(`el.reveal()`))
		must.Same(t, path, want, f.Value(`document.querySelector('.value').textContent`))
		must.Same(t, "it scrolls", "contain true 0", f.Value(`(() => { const v = document.querySelector('.value'); return [getComputedStyle(v).overscrollBehaviorX, v.scrollWidth > v.clientWidth, v.tabIndex].join(' ') })()`))
	}
	must.Same(t, "the height", height, p.Value(`String(el.offsetHeight)`))
	plain := newWorld(t, nil)
	q := plain.open(desktop, `<vault-reveal api-key="KEY" token="x"></vault-reveal>`)
	q.Provoked = true
	must.Contain(t, "without AuthorizeURL", q.outcome(`el.reveal()`), "refused | true | {} | Nothing can be revealed")
	for _, other := range []string{"https://shop.example/authorize", "http://localhost:9/authorize"} {
		foreign := newWorld(t, func(o *elements.Options) { o.AuthorizeURL = other })
		r := foreign.open(desktop, `<vault-reveal api-key="KEY" token="x"></vault-reveal>`)
		r.Provoked = true
		must.Contain(t, other, r.outcome(`el.reveal()`), "refused | true | {} | The host of --elements-authorize must be of the same site")
	}
}
