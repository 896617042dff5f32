package main

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// weakText finds text with less contrast than WCAG level AA requires, 4.5 to
// 1, and edges of inputs with less than 3 to 1.
const weakText = `(() => {
  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const light = (color) => {
    const [r, g, b] = channels(color).map((c) => (c / 255 <= .04045 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + .05) / (Math.min(light(a), light(b)) + .05);
  const behind = (e) => {
    const color = getComputedStyle(e).backgroundColor;
    return channels(color)[3] === 0 ? behind(e.parentElement) : color;
  };
  const weak = [];
  for (const e of document.body.querySelectorAll('*')) {
    const style = getComputedStyle(e);
    const check = (color, least, what) => {
      const found = ratio(color, behind(e.tagName === 'INPUT' && what === 'edge' ? e.parentElement : e));
      if (found < least) weak.push(e.tagName + '#' + e.id + ' ' + what + ' ' + found.toFixed(2));
    };
    if ([...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()) && e.offsetParent) check(style.color, 4.5, 'text');
    if (e.tagName === 'INPUT') {
      check(style.borderTopColor, 3, 'edge');
      check(getComputedStyle(e, '::placeholder').color, 4.5, 'placeholder');
    }
  }
  return weak.join('; ');
})()`

// TestEveryoneCanReadThePages checks contrast, width and labels. The short
// run leaves out two of the screens, but covers each width and each color
// scheme.
func TestEveryoneCanReadThePages(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]browser.Screen{
		"small phone": {Width: 320, Height: 640, Phone: true},
		"dark phone":  {Width: 390, Height: 844, Phone: true, Dark: true},
		"desktop":     desktop,
		"dark":        {Width: 1200, Height: 800, Dark: true},
	} {
		if s.Phone == s.Dark && !long.Run {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newShopPage(t)
			p := w.newTab(t, s)
			check := func(state string) {
				t.Helper()
				must.Same(t, state+": too little contrast", "", p.Value(weakText)) // the tests of elements judge the fields
				if wide := p.Value(`String(document.documentElement.scrollWidth > innerWidth)`); wide != "false" {
					t.Errorf("%s: the page is wider than the screen", state)
				}
			}
			p.Navigate(w.orderPage())
			check("empty")
			p.tabTo("pay")
			if outline := p.Value(`getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
				t.Errorf("the outline of the focused element is %s", outline)
			}
			p.Press(kb.Enter)
			p.awaitError("cc-number", "Enter the card number.")
			check("with errors")
			p.Provoked = true
			w.fields.Close()
			p.fill(goodNumber, goodExpiry, goodCode)
			p.Press(kb.Enter)
			p.awaitNotice("cannot be reached")
			check("with a notice")
		})
	}
}
