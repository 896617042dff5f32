package main

import (
	"cmp"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }

var (
	phone   = browser.Screen{Width: 390, Height: 844, Phone: true}
	desktop = browser.Screen{Width: 1200, Height: 800}
)

// tab is a page of the shop in a browser.
type tab struct {
	*browser.Tab
	w *shopPage
}

// newTab opens a tab with a new profile.
func (w *shopPage) newTab(t *testing.T, s browser.Screen) *tab {
	t.Helper()
	return &tab{browser.Open(t, s), w}
}

// fields returns the document of the card fields, which the page cannot see.
func (p *tab) fields() *browser.Tab {
	p.T.Helper()
	p.Await(`document.querySelector('vault-card').matches(':defined')`)
	for {
		if all := p.Frames(p.w.elements + "/frame"); len(all) > 0 {
			all[0].Await(`document.getElementById('cc-csc')`)
			return all[0]
		}
	}
}

// focused returns the id of the element with the focus.
func (p *tab) focused() string {
	p.T.Helper()
	if p.Value(`document.activeElement.localName`) == "vault-card" {
		return p.fields().Value(`document.activeElement.id`)
	}
	return p.Value(`document.activeElement.id`)
}

// tabTo presses Tab until the focus is on an element.
func (p *tab) tabTo(id string) {
	p.T.Helper()
	p.fields() // they must be there
	for range 20 {
		if p.focused() == id {
			return
		}
		p.Press(kb.Tab)
	}
	p.T.Fatalf("%s is not reached by Tab; the focus is on %q", id, p.focused())
}

// fill types a card using only the keyboard, and leaves the focus on the
// button.
func (p *tab) fill(number, expiry, cvc string) {
	p.T.Helper()
	for _, field := range [][2]string{{"cc-number", number}, {"cc-exp", expiry}, {"cc-csc", cvc}} {
		p.tabTo(field[0])
		p.fields().Run(`document.activeElement.select()`)
		p.Press(cmp.Or(field[1], kb.Delete))
	}
	p.tabTo("pay")
}

// awaitError waits for a message next to a field, which has the focus.
func (p *tab) awaitError(id, message string) {
	p.T.Helper()
	f := p.fields()
	f.Await(fmt.Sprintf(`document.getElementById('%s-error').textContent !== ''`, id))
	must.Same(p.T, "beside "+id, message, f.Value(fmt.Sprintf(`document.getElementById('%s-error').textContent`, id)))
	must.Same(p.T, "the focus is on", id, p.focused())
}

// awaitNotice waits for a message about the form.
func (p *tab) awaitNotice(part string) {
	p.T.Helper()
	p.Await(`document.getElementById('notice').textContent !== ''`)
	must.Contain(p.T, "the page", p.Value(`document.getElementById('notice').textContent`), part)
}

// awaitReceipt waits for the receipt and returns the digits of the card on it.
func (p *tab) awaitReceipt() string {
	p.T.Helper()
	p.Await(`document.getElementById('receipt') !== null && document.readyState === 'complete'`)
	return p.Value(`document.getElementById('last4').textContent`)
}
