package elements_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
)

// ofPages are the rules about whole pages, which the page around the frame meets.
var ofPages = []string{"page-has-heading-one", "landmark-one-main", "region"}

// TestAccessible judges the page and the frames with all rules of axe-core, empty and with
// errors, in light and dark.
func TestAccessible(t *testing.T) {
	t.Parallel()
	axe := browser.Axe(t)
	for name, s := range map[string]browser.Screen{"light": desktop, "dark phone": {Width: 390, Height: 844, Phone: true, Dark: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *elements.Options) {
				o.AuthorizeURL, o.Copy = "http://127.0.0.1:9/authorize", true
				o.Networks = func(string) []string { return []string{"cartes_bancaires", "visa"} }
			})
			w.policy = "" // axe-core loads styles
			for _, element := range []string{card, `<vault-text api-key="KEY"></vault-text>`, `<vault-reveal api-key="KEY" token="x"></vault-reveal>`} {
				p := w.open(s, `<main style="color-scheme: light dark"><h1>Pay</h1>`+element+`</main>`)
				p.Provoked = true
				judge := func(state string) {
					t.Helper()
					for _, violation := range p.Violations(axe) {
						t.Errorf("%s, %s: %s", element, state, violation)
					}
					f := p.frame()
					f.Run(`document.body.style.background = 'Canvas'`) // what the page draws below the frame
					for _, violation := range f.Violations(axe) {
						if name, _, _ := strings.Cut(violation, ":"); !slices.Contains(ofPages, name) {
							t.Errorf("the frame of %s, %s: %s", element, state, violation)
						}
					}
				}
				judge("empty")
				if element == card {
					p.focus("number")
					p.Press("4970100000000154")
					p.until(`last('number').networks?.length === 2`)
					p.outcome(`el.tokenize()`)
					judge("with errors and networks")
				}
			}
		})
	}
}
