package elements_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestHostilePage types a card into a page that records everything it can observe, and
// searches the record for digits.
func TestHostilePage(t *testing.T) {
	t.Parallel()
	for name, showBIN := range map[string]bool{"bin": true, "no bin": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *elements.Options) { o.ShowBIN = showBIN })
			w.policy = strings.Replace(w.policy, "require-trusted-types-for 'script'", "img-src 'none'", 1)
			page := w.page(card)
			page = strings.Replace(page, "<body>", `<body><script src="/hostile.js"></script>`, 1)
			page = strings.Replace(page, "</body>", `<script src="/hostile.js"></script></body>`, 1)
			p := w.load(desktop, page)
			p.Provoked = true
			p.until(`log.some(([name]) => name === 'ready')`)
			p.Run(`hostile(true); look(); el.lang = 'de'; el.lang = 'en'`) // which repeats the real settings
			p.Value(`outcome(el.tokenize())`)                              // the frame has them, and moves no field from now on

			// The page tokenizes after each key, takes the focus now and then, and looks around.
			p.focus("number")
			for i, key := range secretNumber {
				p.Press(string(key))
				p.Run(`look(); el.tokenize({metadata: {a: 'b'}}).catch(() => {})`)
				if i%5 == 4 {
					p.Run(`hostile()`)
					p.focus("number")
				}
			}
			p.focus("expiry")
			p.Press("1239")
			p.focus("cvc")
			p.Press("835")
			p.Run(`look(); hostile()`)
			p.until(`last('cvc')?.complete && last('number')?.complete`)
			p.Run(`el.tokenize().catch(() => {})`)
			p.Value(`outcome(el.tokenize())`) // busy, or another token
			p.Run(`el.authorize = async (nonce) => {}; look()`)
			for strings.HasPrefix(p.Value(`outcome(el.tokenize())`), "busy") { // earlier calls are still at work
			}
			p.until(`seen.some((s) => s.includes('nonce'))`)
			p.Run(`look()`)

			record := p.Value(`seen.join('\n')`)
			for _, expected := range []string{"port: {is: change", "last4: 0002", "then: {id: ", "XXXXXXXXXXXX0002", "nonce: ", "performance: ", "frame.location: ", "catch: {code: invalid"} {
				must.Contain(t, "the record", record, expected)
			}
			must.Lack(t, "what a second port is told", record, "second port: ")
			must.Same(t, "bin", showBIN, strings.Contains(record, "bin: "+secretNumber[:6]))
			must.Same(t, "what objects of the frame inherit", "0 undefined", p.frame().Value(`Object.keys(Object.prototype).length + ' ' + {}.polluted`))
			noDigits(t, record, secretNumber, showBIN)
			for _, secret := range []string{"key_sess", "session_key", "fingerprint", "835"} {
				for line := range strings.Lines(record) {
					if plain := changing.ReplaceAllString(line, ""); strings.Contains(digitsApart.ReplaceAllString(plain, " "), secret) {
						t.Errorf("the page saw %s: %.300s", secret, line)
					}
				}
			}
		})
	}
}

// until waits without the functions of the page, which a hostile page has replaced.
func (p *tab) until(condition string) {
	p.T.Helper()
	for end := time.Now().Add(time.Minute); p.Value(`String(Boolean(`+condition+`))`) != "true"; {
		if time.Now().After(end) {
			p.T.Fatalf("%s is not true", condition)
		}
	}
}

// noDigits fails if a record holds five digits in a row of a number, in any place but its
// bin, or four in its middle, with or without separators.
func noDigits(t *testing.T, record, number string, bin bool) {
	t.Helper()
	for line := range strings.Lines(record) {
		plain := strings.NewReplacer(" ", "", "-", "", ",", "").Replace(digitsApart.ReplaceAllString(changing.ReplaceAllString(line, "#"), "#"))
		for i := 0; i+5 <= len(number); i++ {
			part := number[i : i+5]
			if inBIN := bin && strings.Contains(number[:6], part); strings.Contains(plain, part) && !inBIN {
				t.Errorf("the page saw %s of the number: %.300s", part, line)
			}
		}
		if strings.Contains(plain, number[6:10]) || strings.Contains(plain, number[8:12]) {
			t.Errorf("the page saw the middle of the number: %.300s", line)
		}
	}
}

// TestPrefixesAreNotCollected types texts into a page that tokenizes after each key. The masks
// of all tokens together must not show the text.
func TestPrefixesAreNotCollected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	p := w.open(desktop, `<vault-text api-key="KEY"></vault-text>`)
	secret := "correct horse battery"
	p.Run(`window.got = []`)
	p.focus("text")
	for _, key := range secret {
		p.Press(string(key))
		p.Value(`el.tokenize().then((token) => { got.push(token.data); return '' }, (e) => { got.push(e.code); return '' })`)
	}
	shown := map[string]bool{}
	for mask := range strings.SplitSeq(p.Value(`got.join('\n')`), "\n") {
		if end := strings.Trim(mask, "X"); end != "" {
			shown[end] = true
		}
	}
	if len(shown) != 1 {
		t.Errorf("the page saw %v", shown)
	}

	// A number of 19 digits begins with a valid number of 16.
	long := "4242424242424242" + "005"
	if !luhn(long) {
		for d := range 1000 {
			if long = "4242424242424242" + fmt.Sprintf("%03d", d); luhn(long) {
				break
			}
		}
	}
	n := w.open(desktop, card)
	n.focus("number")
	n.Press("4242424242424242")
	n.Await(`last('number').last4 === '4242'`)
	n.focus("number")
	n.Press(kb.End + long[16:])
	n.focus("cvc")
	n.Press("123")
	n.Await(`last('number').complete && last('cvc').complete`)
	must.Same(t, "another end", "undefined", n.Value(`String(last('number').last4)`))
	n.focus("expiry")
	n.Press("1239")
	n.Await(`last('expiry').complete`)
	must.Contain(t, "the token", n.outcome(`el.tokenize()`), `"number":"XXXXXXXXXXXXXXXXXXX"`)

	// The first 13 digits of this Visa are a valid number too. The page takes the focus after
	// them. Their end is shown only once the user has left the field.
	b := w.open(desktop, card)
	b.focus("number")
	b.Press("4000007651231")
	b.Run(`el.blur()`)
	b.Await(`last('number').valid`)
	b.focus("cvc")
	b.focus("number")
	b.outcome(`el.tokenize()`)
	ends := `String(new Set(log.map(([, detail]) => detail?.last4).filter(Boolean)).size)`
	must.Same(t, "ends of 13 digits", "0", b.Value(ends))
	b.focus("number")
	b.Press(kb.End + kb.Tab)
	b.Await(`last('number').last4 === '1231'`)

	// Another card is shown.
	n.Run(`el.clear()`)
	n.fill("5555555555554444")
	must.Contain(t, "the token", n.outcome(`el.tokenize()`), `"number":"XXXXXXXXXXXX4444"`)
}

// TestCaretTellsNothing types into a frame of which the page shows only a part. The browser
// scrolls the page to the caret, by the same distance for each character.
func TestCaretTellsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.policy = "" // for the style of the page
	for _, font := range []string{"", "serif", "monospace", "zoomed", "focus"} {
		p := w.open(desktop, `<div id="part" style="width:60px;overflow:hidden"><vault-text style="width:900px" api-key="KEY"></vault-text></div>`)
		p.Provoked = true
		switch font {
		case "":
		case "zoomed": // while the frame measures the font
			p.Run(`el.style.zoom = '.0001'; el.look = {base: {fontFamily: 'sans-serif', fontStyle: 'italic'}}`)
			p.frame().Await(`getComputedStyle(document.getElementById('text')).fontStyle === 'italic'`)
			p.Run(`el.style.zoom = ''`)
		case "focus": // only while characters are typed
			p.Run(`el.look = {base: {fontFamily: 'monospace'}, focus: {fontFamily: 'serif'}}`)
		default:
			p.Run(`el.look = {base: {fontFamily: '` + font + `'}}`)
		}
		p.focus("text")
		p.Press("........") // beyond the part that is shown
		var steps []int
		last := 0
		for _, key := range "il1WM.m407j" {
			p.Press(string(key))
			p.Value(`new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(() => done(''))) })`)
			at := must.Get(strconv.Atoi(p.Value(`String(Math.round(part.scrollLeft))`)))(t)
			steps, last = append(steps, at-last), at
		}
		if steps = steps[1:]; slices.Max(steps)-slices.Min(steps) > 1 || slices.Min(steps) == 0 {
			t.Errorf("font %q: the page was scrolled by %v", font, steps)
		}
		if font == "serif" || font == "focus" {
			p.AwaitComplaint("look has a fontFamily with characters of different widths")
		}
	}

	// Digits have one width in most fonts, which then stay. This page has a font with a wide 7.
	p := w.open(desktop, card)
	p.Provoked = true
	f := p.frame()
	family := `getComputedStyle(document.getElementById('cc-number')).fontFamily`
	p.Run(`el.hidden = true`)
	f.Await(`document.body.offsetWidth === 0`) // the frame may get the look before it is hidden
	p.Run(`el.look = {base: {fontFamily: 'serif'}}`)
	f.Await(family + `.endsWith('monospace')`) // it cannot be measured
	p.Run(`el.hidden = false`)
	f.Await(family + ` === 'serif'`)
	f.Run(`(() => { const real = Element.prototype.getBoundingClientRect; Element.prototype.getBoundingClientRect = function () {
		const r = real.call(this); return this.textContent.startsWith('77') ? {width: r.width + 9} : r } })()`)
	p.Run(`el.look = {base: {fontFamily: 'sans-serif'}}`)
	f.Await(family + `.endsWith('monospace')`)
}

// TestOnlyListedOriginsEmbedTheFrame loads the frame in pages of other origins, in sandboxes,
// and in nested pages.
func TestOnlyListedOriginsEmbedTheFrame(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	content := strings.ReplaceAll(w.page(card), `<script src="/record.js"></script>`, "")
	inner := w.origin
	w.content.Store(&content)
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/page": // of an origin that is not listed
			fmt.Fprint(rw, content)
		case "/nested": // a listed page inside an unlisted page
			fmt.Fprintf(rw, `<iframe src=%q></iframe>`, inner)
		case "/direct":
			fmt.Fprintf(rw, `<iframe src=%q></iframe>`, w.el.URL+"/frame")
		}
	}))
	t.Cleanup(other.Close)
	refusals := 0
	for _, path := range []string{other.URL + "/page", other.URL + "/nested", other.URL + "/direct"} {
		p := w.load(desktop, content)
		p.Provoked = true
		p.Navigate(path)
		p.AwaitComplaint("frame-ancestors")
		refusals++
	}
	must.Same(t, "refusals", 3, refusals)

	// A sandboxed page has no origin, so it is not listed. Nobody reads its console, but the
	// frame's script is not loaded.
	loads, scripts := make(chan struct{}, 1), 0
	watch := func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/frame.js" {
			scripts++
		}
		next.ServeHTTP(rw, r)
	}
	w.around.Store(&watch)
	content = strings.Replace(content, "<body>", "<body><script>onload = () => fetch('/loaded', {mode: 'no-cors'})</script>", 1)
	w.shop.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			fmt.Fprint(rw, `<iframe sandbox="allow-scripts" src="/inner"></iframe>`)
		case "/inner":
			fmt.Fprint(rw, content)
		case "/loaded":
			loads <- struct{}{}
		}
	})
	p := w.load(desktop, "")
	p.Provoked = true
	<-loads
	must.Same(t, "loads of the frame's script", 0, scripts)
}

// TestOnlyThePageAroundTheFrameGetsItsPort has other windows of a listed origin offer a port:
// a frame beside the frame, and a page that has opened it as a window.
func TestOnlyThePageAroundTheFrameGetsItsPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.policy = ""
	offer := `(() => { const c = new MessageChannel(); const all = parent.answers; c.port1.onmessage = ({data}) => all.push([NAME, data.is].join(' '));
		parent.target.postMessage('vault-elements', '*', [c.port2]); c.port1.postMessage({do: 'setup', kind: 'card'}) })()`
	p := w.load(desktop, "<!doctype html><title>Page</title>")
	p.Run(`window.answers = []; window.made = document.createElement('iframe'); made.src = '` + w.el.URL + `/frame'; window.beside = document.createElement('iframe');
		made.onload = () => { window.target = made.contentWindow; document.body.append(beside);
			beside.contentWindow.eval(` + strconv.Quote(strings.ReplaceAll(offer, "NAME", `'beside'`)) + `); eval(` + strconv.Quote(strings.ReplaceAll(offer, "NAME", `'parent'`)) + `) };
		document.body.append(made)`)
	p.Await(`answers.includes('parent ready')`)
	must.Same(t, "who got an answer", "", p.Value(`answers.filter((a) => !a.startsWith('parent ')).join()`))

	// The headers of the frame part a window from the page that has opened it.
	p.Window(w.el.URL + "/frame")
	p.Await(`opened.closed`)

	// A browser that does not know this header.
	strip := func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(withoutOpenerPolicy{rw}, r)
	}
	w.around.Store(&strip)
	f := p.Window(w.el.URL + "/frame#window")
	p.Run(`window.target = opened; 0`)
	f.Await(`document.readyState === 'complete'`)
	f.Run(`window.offers = 0; addEventListener('message', () => { offers += 1 })`)
	p.Run(strings.ReplaceAll(offer, "NAME", `'opener'`))
	f.Await(`window.offers === 1`)
	must.Same(t, "the port of a window", "null", f.Value(`String(port)`))
}

// withoutOpenerPolicy leaves a header out.
type withoutOpenerPolicy struct{ http.ResponseWriter }

func (w withoutOpenerPolicy) Write(text []byte) (int, error) {
	w.Header().Del("Cross-Origin-Opener-Policy")
	return w.ResponseWriter.Write(text)
}
