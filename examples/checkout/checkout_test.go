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
	goodCode   = "7391"
)

func TestPayByKeyboard(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]browser.Screen{"phone": phone, "desktop": desktop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := newWorld(t), newTab(t, s)
			p.Navigate(w.page)
			p.fill(goodNumber, goodExpiry, goodCode)
			must.Same(t, "the number is shown as", "4242 4242 4242 4242", p.Value(`document.getElementById('number').value`))
			p.Press(kb.Enter)
			must.Same(t, "the receipt", "4242", p.awaitReceipt())
			want := `{"amount":4200,"card":{"number":"4242424242424242","expiration_month":12,"expiration_year":2039,"cvc":"7391"},"currency":"EUR"`
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
			must.Same(t, "the console has messages", 0, len(p.Complaints()))
		})
	}
}

func TestErrorsAreShownAtTheField(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t), newTab(t, phone)
	p.Navigate(w.orderPage())
	for _, c := range []struct{ number, expiry, cvc, field, message string }{
		// Errors of the page.
		{"", goodExpiry, "123", "number", "Enter the card number."},
		{goodNumber, "12", "123", "expiry", "Enter the expiry date as on the card, such as 09 / 30."},
		{goodNumber, goodExpiry, "", "cvc", "Enter the security code."},
		// Errors of the vault.
		{"4242424242424241", goodExpiry, "123", "number", "Check the card number: it must have a valid check digit (Luhn)."},
		{"42424242424", goodExpiry, "123", "number", "Check the card number: it must be a string of 12 to 19 digits."},
		{goodNumber, "1339", "123", "expiry", "Check the month: it must be a month from 1 to 12."},
		{goodNumber, "120999", "123", "expiry", "Check the year: it must be a year of four digits."},
		{goodNumber, goodExpiry, "12", "cvc", "Check the security code: it must be a string of 3 to 4 digits."},
		{goodNumber, "1339", "12", "expiry", "Check the month: it must be a month from 1 to 12."}, // the code is wrong too; the first field has the focus
		// Errors of the acquirer.
		{declinedNumber, goodExpiry, "123", "number", "The bank declined this card. Try another one."},
	} {
		p.Run(`document.activeElement.blur()`)
		p.fill(c.number, c.expiry, c.cvc)
		p.Press(kb.Enter)
		p.awaitError(c.field, c.message)
		p.Press("1") // the first key removes the message
		if got := p.Value(`document.activeElement.getAttribute('aria-invalid') ?? 'gone'`); got != "gone" {
			t.Errorf("%s: aria-invalid is still %q", c.message, got)
		}
	}
	p.Run(`document.activeElement.blur()`)
	p.fill(goodNumber, goodExpiry, goodCode)
	p.Press(kb.Enter)
	p.awaitReceipt()
	if w.logs.contains(goodNumber) || w.received.contains(goodNumber) {
		t.Error("the shop has the number")
	}
}

func TestCaretStaysWhileNumberIsGrouped(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t), newTab(t, desktop)
	p.Navigate(w.orderPage())
	p.tabTo("number")
	left := kb.ArrowLeft
	for _, step := range []struct{ keys, want string }{ // | is the caret
		{"42425", "4242 5|"},
		{left + left, "4242| 5"},
		{"9", "4242 9|5"},
		{kb.Backspace, "4242| 5"},
		{kb.ArrowRight + kb.Backspace, "424|5"}, // a separator is deleted with its digit
		{"2", "4242| 5"},
		{kb.Delete, "4242|"},
		{kb.Home + kb.Delete + "37", "37|24 2"}, // grouped like this kind of card
		{kb.End + "123456789", "3724 212345 6789|"},
	} {
		p.Press(step.keys)
		got := p.Value(`(() => { const {value: v, selectionStart: i} = document.activeElement; return v.slice(0, i) + '|' + v.slice(i) })()`)
		must.Same(t, "after "+step.keys, step.want, got)
	}
}

func TestExpiredSessionIsExplainedAndRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var late sync.Once
	shop := w.around
	w.around = func(rw http.ResponseWriter, r *http.Request) {
		shop(rw, r)
		if strings.HasSuffix(r.URL.Path, "/session") { // the page continues only after the session has ended
			late.Do(func() { w.clock.Store(int64(sessionLife + time.Second)) })
		}
	}
	p := newTab(t, phone)
	p.Navigate(w.orderPage())
	p.fill(goodNumber, goodExpiry, goodCode)
	p.Press(kb.Enter)
	p.awaitNotice("has expired. You have not been charged. Press Pay to try again.")
	must.Same(t, "the focus is on", "pay", p.focused())
	w.clock.Store(0)
	p.Press(kb.Enter)
	p.awaitReceipt()
}

func TestUnreachableVaultIsExplained(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t), newTab(t, desktop)
	p.Navigate(w.orderPage())
	p.fill(goodNumber, goodExpiry, goodCode)
	w.api.Close()
	p.Press(kb.Enter)
	p.awaitNotice("The card service cannot be reached. You have not been charged.")
	must.Same(t, "the button", "Pay €42.00", p.Value(`document.getElementById('pay-text').textContent`))
}

func TestOrderIsPaidOnce(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t), newTab(t, desktop)
	order := w.orderPage()
	stale := &tab{p.Another(desktop)}
	p.Navigate("about:blank")
	p.Navigate(order)
	stale.Navigate(order)
	for _, each := range []*tab{p, stale} {
		each.fill(goodNumber, goodExpiry, goodCode)
	}
	// Pressed twice: the form is busy and accepts only the first.
	p.Run(`for (let i = 0; i < 2; i++) document.getElementById('card').requestSubmit()`)
	p.awaitReceipt()
	// Back and forward skip the form.
	p.Do(chromedp.NavigateBack())
	must.Same(t, "back leads to", "about:blank", p.Value(`location.href`))
	p.Do(chromedp.NavigateForward())
	p.awaitReceipt()

	// A second window still shows the form.
	stale.Press(kb.Enter)
	stale.awaitReceipt()
	must.Same(t, "charged", int64(1), w.charges.Load())
}

func TestBrowserEnforcesThePolicy(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t), newTab(t, desktop)
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
