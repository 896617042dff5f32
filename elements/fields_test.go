package elements_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// shownAs returns what a field shows after a text was pasted.
func (p *tab) pasted(field, text string) string {
	p.T.Helper()
	return p.frame().Value(`(() => { const {input} = fields.` + field + `; input.value = ` + quote(text) + `;
		input.dispatchEvent(new InputEvent('input', {inputType: 'insertFromPaste'})); return input.value })()`)
}

func quote(text string) string { return "`" + text + "`" }

// TestFieldsKeepWhatWasTyped types more than fits. Nothing is dropped silently, so
// the shown card is the card that is sent.
func TestFieldsKeepWhatWasTyped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.open(desktop, card)
	f := p.frame()
	at := func() string {
		return f.Value(`(() => { const {value: v, selectionStart: i} = document.activeElement; return v.slice(0, i) + '|' + v.slice(i) })()`)
	}

	// A key in a full field changes nothing. In the middle it must not push out the last digit.
	p.focus("number")
	p.Press("5555555555554444")
	p.until(`last('number').valid`)
	p.focus("number")
	p.Press(kb.Home + kb.ArrowRight + kb.ArrowRight + "9")
	must.Same(t, "a full number", "55|55 5555 5555 4444", at())
	p.focus("expiry")
	p.Press("1239")
	p.until(`last('expiry').valid`)
	p.focus("expiry")
	p.Press(kb.Home + kb.ArrowRight + "5")
	must.Same(t, "a full date", "1|2 / 39", at())
	p.focus("cvc")
	p.Press("1234")
	must.Same(t, "a full code", "123|", at())

	// What is pasted stays whole, and is judged as a whole.
	must.Same(t, "a number with three digits too many", "5555 5555 5555 4444 123", p.pasted("number", "5555 5555 5555 4444 123"))
	p.until(`last('number').complete && !last('number').valid`)
	must.Contain(t, "it is refused", p.outcome(`el.tokenize()`), `{"number":"number_invalid"}`)
	must.Same(t, "a code with a digit too many", "1234", p.pasted("cvc", "1234"))
	must.Same(t, "another number", "5555 5555 5555 4444", p.pasted("number", "5555555555554444"))
	must.Contain(t, "the code is refused", p.outcome(`el.tokenize()`), `{"cvc":"cvc_invalid"}`)
	must.Same(t, "the message", "The security code is too long for this card.", f.Value(`document.getElementById('cc-csc-error').textContent`))
	must.Same(t, "a number of this code", "3782 822463 10005", p.pasted("number", "378282246310005"))
	p.until(`last('cvc').valid`)
	must.Contain(t, "the token", p.outcome(`el.tokenize()`), `"number":"XXXXXXXXXXX0005"`)

	// Complete and valid differ.
	p.pasted("expiry", "13/39")
	p.until(`last('expiry').complete && !last('expiry').valid`)
	p.pasted("number", "4242 4242 4242 4243")
	p.until(`last('number').complete && !last('number').valid && !('last4' in last('number'))`)

	// Digits of other keyboards.
	for _, digits := range []string{"٤٢٤٢٤٢٤٢٤٢٤٢٤٢٤٢", "۴۲۴۲۴۲۴۲۴۲۴۲۴۲۴۲", "４２４２４２４２４２４２４２４２", "4242.4242.4242.4242", "4242\u00a04242\u20094242-4242"} {
		must.Same(t, digits, "4242 4242 4242 4242", p.pasted("number", digits))
	}
	must.Same(t, "an Arabic date", "12 / 34", p.pasted("expiry", "١٢/٢٠٣٤"))
}

// TestNetworksAreAwaited calls tokenize before the networks of the card are known. The
// buyer must have had a choice.
func TestNetworksAreAwaited(t *testing.T) {
	t.Parallel()
	goOn := make(chan struct{})
	w := newWorld(t, func(o *elements.Options) {
		o.Networks = func(string) []string {
			<-goOn
			return []string{"cartes_bancaires", "visa"}
		}
	})
	p := w.open(desktop, card)
	p.fill("4970100000000154")
	p.Run(`window.early = outcome(el.tokenize())`)
	close(goOn)
	must.Contain(t, "too early", p.Value(`early`), `invalid | true | {"network":"network_required"}`)
	f := p.frame()
	must.Same(t, "the choice has the focus", "cartes_bancaires", f.Value(`document.activeElement.value`))
	must.Same(t, "it is announced", "Choose how to pay.", f.Value(`live.textContent`))
	must.Contain(t, "the choice", p.outcome(`el.tokenize()`), `"metadata":{"network":"cartes_bancaires"}`)
}

// TestElementsInThePage is about elements that the page moves, changes, or has twice.
func TestElementsInThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.open(desktop, card+`<div id="other"></div>`)
	p.Provoked = true
	p.fill(visa)

	// Another element does not disturb the first one.
	p.Run(`window.second = el.cloneNode(); second.texts = {labels: {frame: 'Gift card'}}; window.isReady = new Promise((done) => second.addEventListener('ready', done)); document.body.append(second)`)
	p.Value(`isReady.then(() => '')`)
	must.Same(t, "frames", 2, len(p.frames()))
	both := p.Value(`Promise.all([outcome(el.tokenize()), outcome(second.tokenize())]).then((all) => all.join(' '))`)
	must.Contain(t, "the first", both, `"number":"XXXXXXXXXXXX4242"`)
	must.Contain(t, "the second", both, `"number":"number_required"`)
	p.Run(`second.remove()`)

	// moveBefore keeps what was typed.
	p.Run(`document.getElementById('other').moveBefore(el, null)`)
	must.Contain(t, "after a move", p.outcome(`el.tokenize()`), `"number":"XXXXXXXXXXXX4242"`)

	// Wrong attributes are reported when they are set. What was typed stays.
	for attribute, complaint := range map[string]string{
		"rows": "rows must name number, expiry and cvc at most once each", "api-key": "api-key must be a public key",
	} {
		before := p.Value(`String(el.getAttribute('` + attribute + `'))`)
		p.Run(`el.setAttribute('` + attribute + `', 'wrong')`)
		p.AwaitComplaint(complaint)
		p.Run(`el.setAttribute('` + attribute + `', '` + before + `'); if ('` + before + `' === 'null') el.removeAttribute('` + attribute + `')`)
	}
	for options, field := range map[string]string{
		`{metadata: 7}`: "metadata", `{metadata: ['a']}`: "metadata", `{metadata: {a: 1n}}`: "metadata", `{metadata: (() => { const m = {}; m.m = m; return m })()}`: "metadata",
		`{metadata: {a: 'x'.repeat(70000)}}`: "", `{expires_at: new Date(NaN)}`: "expires_at", `{expires_at: 7}`: "expires_at", `{metadata: new Map()}`: "metadata",
	} {
		must.Contain(t, options, p.outcome(`el.tokenize(`+options+`)`), "invalid | true | {"+strings.TrimSuffix(`"`+field+`":"invalid"`, `"":"invalid"`))
	}

	// The document's colours and language change.
	f := p.frame()
	p.Run(`document.documentElement.style.colorScheme = 'dark'`)
	f.Await(`document.documentElement.dataset.scheme === 'dark' && getComputedStyle(document.querySelector('input')).backgroundColor === 'rgb(25, 29, 36)'`)
	p.Run(`document.documentElement.style.colorScheme = 'dark light'; document.documentElement.lang = 'de'`)
	f.Await(`document.documentElement.dataset.scheme === 'light dark' && document.querySelector('label').textContent === 'Kartennummer'`)
	must.Contain(t, "nothing was lost", p.outcome(`el.tokenize()`), `"number":"XXXXXXXXXXXX4242"`)

	// A server that does not respond in time.
	f.Run(`AbortSignal.timeout = () => { const c = new AbortController(); window.giveUp = () => c.abort(); return c.signal }`)
	stuck, end := make(chan struct{}, 1), make(chan struct{})
	defer close(end)
	wait := func(http.ResponseWriter, *http.Request, http.Handler) {
		stuck <- struct{}{}
		<-end
	}
	w.around.Store(&wait)
	p.Run(`window.slow = outcome(el.tokenize())`)
	<-stuck
	f.Run(`giveUp()`)
	must.Contain(t, "a slow server", p.Value(`slow`), "unreachable | true")
}

// TestThePageDoesNotJump compares the height of an element before its frame is loaded with
// the height of the fields.
func TestThePageDoesNotJump(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *elements.Options) { o.AuthorizeURL = "http://127.0.0.1:9/authorize" })
	all := card + `<vault-cvc api-key="KEY" token="x"></vault-cvc><vault-text api-key="KEY"></vault-text><vault-reveal api-key="KEY" token="x"></vault-reveal>`
	p := w.load(desktop, strings.Replace(w.page(all), "</body>", `<script src="/heights.js"></script></body>`, 1))
	p.Await(`window.readies === 4`)
	for _, f := range p.frames() {
		f.Value(`new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(() => done(''))) })`) // heights are sent after a layout
	}
	must.Same(t, "heights", p.Value(`before`), p.Value(`heights()`))
	must.Same(t, "the page", "0 0", p.Value(`scrollX + ' ' + scrollY`))
}
