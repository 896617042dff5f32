package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const (
	goodNumber = "4242424242424242"
	goodExpiry = "1239"
	goodCode   = "739"
)

func TestPayByKeyboard(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]browser.Screen{"phone": phone, "desktop": desktop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newShopPage(t)
			p := w.newTab(t, s)
			p.Navigate(w.page)
			p.fill(goodNumber, goodExpiry, goodCode)
			must.Same(t, "the number is shown as", "4242 4242 4242 4242", p.fields().Value(`document.getElementById('cc-number').value`))
			p.Press(kb.Enter)
			must.Same(t, "the receipt", "4242", p.awaitReceipt())
			want := `{"amount":4200,"card":{"number":"4242424242424242","expiration_month":12,"expiration_year":2039,"cvc":"739"},"currency":"EUR"`
			if w.charges.Load() != 1 || !strings.HasPrefix(w.charged.Load().(string), want) {
				t.Errorf("charged %d times: %v", w.charges.Load(), w.charged.Load())
			}
			for _, secret := range []string{goodNumber, "4242 4242", "42424242"} {
				if w.received.contains(secret) {
					t.Errorf("the shop received %s", secret)
				}
				if w.logs.contains(secret) {
					t.Errorf("a log contains %s", secret)
				}
			}
			if w.received.holdsCode(goodCode) || w.logs.holdsCode(goodCode) {
				t.Error("the shop has the security code")
			}
			// Otherwise the two checks would prove nothing.
			if !w.received.contains(`"token":"`) || !w.received.contains("XXXXXXXXXXXX4242") || !w.logs.contains("/payment") {
				t.Error("the records lack what the shop received")
			}
		})
	}
}

func TestErrorsAreShownAtTheField(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	p := w.newTab(t, phone)
	p.Navigate(w.orderPage())
	for _, c := range []struct{ number, expiry, cvc, field, message string }{
		{"", goodExpiry, "123", "cc-number", "Enter the card number."},
		{"4242424242424241", goodExpiry, "123", "cc-number", "Check the card number. A digit seems to be wrong."},
		{goodNumber, "1339", "12", "cc-exp", "The month must be from 01 to 12."}, // the code is wrong too; the first field has the focus
		{goodNumber, goodExpiry, "", "cc-csc", "Enter the security code."},
	} {
		p.Run(`document.activeElement.blur()`)
		p.fill(c.number, c.expiry, c.cvc)
		p.Press(kb.Enter)
		p.awaitError(c.field, c.message)
		must.Same(t, "the notice", "", p.Value(`document.getElementById('notice').textContent`))
	}
	p.Run(`document.activeElement.blur()`)
	p.fill(declinedNumber, goodExpiry, "123")
	p.Press(kb.Enter)
	p.awaitNotice("The bank declined this card. Try another one.")
	p.Run(`document.activeElement.blur()`)
	p.fill(goodNumber, goodExpiry, "739")
	p.Press(kb.Enter)
	p.awaitReceipt()
	if w.logs.contains(goodNumber) || w.received.contains(goodNumber) {
		t.Error("the shop has the number")
	}
}

func TestExpiredSessionIsExplainedAndRetried(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	var late sync.Once
	shop := w.around
	w.around = func(rw http.ResponseWriter, r *http.Request) {
		shop(rw, r)
		if strings.HasSuffix(r.URL.Path, "/session") { // the page continues only after the session has ended
			late.Do(func() { w.clock.Store(int64(sessionLife + time.Second)) })
		}
	}
	p := w.newTab(t, phone)
	p.Navigate(w.orderPage())
	p.fill(goodNumber, goodExpiry, goodCode)
	p.Press(kb.Enter)
	p.Provoked = true
	p.awaitNotice("has expired. You have not been charged. Press Pay to try again.")
	must.Same(t, "the focus is on", "pay", p.focused())
	w.clock.Store(0)
	p.Press(kb.Enter)
	p.awaitReceipt()
}

func TestUnreachableVaultIsExplained(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	p := w.newTab(t, desktop)
	p.Navigate(w.orderPage())
	p.fill(goodNumber, goodExpiry, goodCode)
	p.Provoked = true
	w.fields.Close()
	p.Press(kb.Enter)
	p.awaitNotice("The card service cannot be reached. You have not been charged.")
	must.Same(t, "the button", "Pay €42.00", p.Value(`document.getElementById('pay-text').textContent`))
}

func TestOrderIsPaidOnce(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	p := w.newTab(t, desktop)
	order := w.orderPage()
	stale := &tab{p.Another(desktop), w}
	p.Navigate("about:blank")
	p.Navigate(order)
	stale.Navigate(order)
	for _, each := range []*tab{p, stale} {
		each.fill(goodNumber, goodExpiry, goodCode)
	}
	// Pressed twice: the form is busy and accepts only the first.
	p.Run(`for (let i = 0; i < 2; i++) document.getElementById('payment').requestSubmit()`)
	p.awaitReceipt()
	// Back and forward skip the form.
	p.Do(chromedp.NavigateBack())
	must.Same(t, "back leads to", "about:blank", p.Value(`location.href`))
	p.Do(chromedp.NavigateForward())
	p.awaitReceipt()

	// A second window still shows the form.
	stale.Provoked = true
	stale.Press(kb.Enter)
	stale.awaitReceipt()
	must.Same(t, "charged", int64(1), w.charges.Load())
}

func TestBrowserEnforcesThePolicy(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	p := w.newTab(t, desktop)
	p.Provoked = true
	p.Navigate(w.orderPage())
	for attack, complaint := range map[string]string{
		`document.body.append(Object.assign(new Image(), {src: 'https://evil.example/x.png'}))`: "img-src",
		`document.body.setAttribute('style', 'color: red')`:                                     "style-src",
		`fetch('https://evil.example/').catch(() => {})`:                                        "connect-src",
		`try { document.body.setAttribute('onclick', 'alert(1)') } catch {}`:                    "'TrustedScript'",
	} {
		p.Run(attack)
		p.AwaitComplaint(complaint)
	}
}
