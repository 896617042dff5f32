//go:build long

package elements_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// otherBrowser is a browser that is no Chromium. A document is the page, or the frame.
type otherBrowser interface {
	value(document, expression string) string
	press(document, keys string)
	intoNumber(page, frame string) // moves the focus into the frame
}

// hostileContent makes the page the hostile one.
func (w *world) hostileContent() {
	content := strings.Replace(w.page(card), "<body>", `<body><script src="/hostile.js"></script>`, 1)
	content = strings.Replace(content, "</body>", `<script src="/hostile.js"></script></body>`, 1)
	w.content.Store(&content)
}

func untilTrue(t *testing.T, b otherBrowser, document, condition string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); b.value(document, `Boolean(`+condition+`)`) != "true"; {
		if time.Now().After(end) {
			t.Fatalf("%s is not true", condition)
		}
	}
}

// testBrowser types a card into the frame of a hostile page, makes a token of it, and searches
// what the page saw. What a browser fills in arrives as input events without keys.
func testBrowser(t *testing.T, b otherBrowser, page, frame string) {
	t.Helper()
	until := func(document, condition string) {
		t.Helper()
		untilTrue(t, b, document, condition)
	}
	b.value(page, `(hostile(true), look(), el.lang = 'de', el.lang = 'en')`)
	b.intoNumber(page, frame)
	until(frame, `document.activeElement?.id === 'cc-number'`)
	for _, key := range secretNumber {
		b.press(frame, string(key))
		b.value(page, `look()`)
	}
	until(page, `last('number')?.last4 === '0002' && last('number').brand === 'visa'`)
	until(frame, `document.activeElement.id === 'cc-exp'`)
	b.press(frame, "1239")
	until(frame, `document.activeElement.id === 'cc-csc'`)
	b.press(frame, "123")
	until(page, `last('cvc')?.valid`)
	must.Same(t, "formatted", "4000 0076 5123 0002 12 / 39", b.value(frame, `document.getElementById('cc-number').value + ' ' + document.getElementById('cc-exp').value`))
	must.Contain(t, "the token", b.value(page, `outcome(el.tokenize())`), `"number":"XXXXXXXXXXXX0002"`)
	b.value(page, `(look(), hostile())`)
	record := b.value(page, "seen.join('\\n')")
	must.Contain(t, "the record", record, "port: {is: change")
	noDigits(t, record, secretNumber, false)
	must.Lack(t, "the record", record, "key_sess")

	// Autofill.
	b.value(page, `el.clear()`)
	until(page, `last('number').empty && last('expiry').empty && last('cvc').empty`)
	b.value(frame, `(() => { for (const [id, value] of [['cc-number', '5555555555554444'], ['cc-exp', '12/2039'], ['cc-csc', '123']]) {
		const input = document.getElementById(id); input.value = value; input.dispatchEvent(new Event('input', {bubbles: true})); input.dispatchEvent(new Event('change', {bubbles: true})) } })()`)
	until(page, `last('number').valid && last('expiry').valid && last('cvc').valid`)
	must.Contain(t, "the token", b.value(page, `outcome(el.tokenize())`), `"number":"XXXXXXXXXXXX4444"`)
}
