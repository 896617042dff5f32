package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	// envBrowser names a Chromium, when it is not on the PATH.
	envBrowser = "VAULT_TEST_CHROMIUM"
	// envRequire, when it is set, makes a missing Chromium a failure. So does CI.
	envRequire = "VAULT_TEST_REQUIRE_CHROMIUM"
)

// patience bounds a wait for the browser.
const patience = 30 * time.Second

// browser is the Chromium that all tests share; each has a profile of its own in
// it, as private windows have.
var browser struct {
	once sync.Once
	ctx  context.Context
	err  error
	stop func() error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.stop != nil {
		if err := browser.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the browser:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// startBrowser starts Chromium.
func startBrowser() {
	path := os.Getenv(envBrowser)
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		browser.err = fmt.Errorf("chromium is not on the PATH, and %s is not set", envBrowser)
		return
	}
	temp, err := os.MkdirTemp("", "vault-checkout-") // Chromium leaves files in its folder for temporary ones
	if err != nil {
		browser.err = err
		return
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), // which makes a new profile and removes it
		chromedp.ExecPath(path), chromedp.Env("TMPDIR="+temp), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
	)
	ctx, stopBrowser := chromedp.NewContext(alloc)
	browser.stop = func() error {
		stopBrowser()
		stopAlloc() // returns when the browser has exited
		return os.RemoveAll(temp)
	}
	browser.ctx, browser.err = ctx, chromedp.Do(ctx)
}

// screen is what a page is shown on.
type screen struct {
	width, height int64
	phone, dark   bool
}

var (
	phone   = screen{width: 390, height: 844, phone: true}
	desktop = screen{width: 1200, height: 800}
)

// tab is a page in a browser.
type tab struct {
	t        *testing.T
	ctx      context.Context
	provoked bool // the test itself makes the console complain

	mu    sync.Mutex
	said  []string      // warnings and errors in the console
	heard chan struct{} // closed when there is another
}

// newTab opens a tab in a new profile. When the test ends, the console must have
// had nothing to complain of but answers that are errors.
func newTab(t *testing.T, s screen) *tab {
	t.Helper()
	browser.once.Do(startBrowser)
	if browser.err != nil {
		if os.Getenv(envRequire) != "" || os.Getenv("CI") != "" {
			t.Fatalf("a Chromium is required: %v", browser.err)
		}
		t.Skipf("no Chromium (%v); install one, for example with apt-get install chromium", browser.err)
	}
	return openTab(t, browser.ctx, s, chromedp.WithNewBrowserContext())
}

// another opens a tab beside this one.
func (p *tab) another(s screen) *tab { return openTab(p.t, p.ctx, s) }

func openTab(t *testing.T, parent context.Context, s screen, opts ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(parent, opts...)
	t.Cleanup(closeTab)
	p := &tab{t: t, ctx: ctx, heard: make(chan struct{})}
	go p.listen(chromedp.Console(ctx))
	viewport := []chromedp.EmulateViewportOption{chromedp.EmulateScale(1)}
	if s.phone {
		viewport = append(viewport, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulatePortrait)
	}
	p.do(chromedp.EmulateViewport(s.width, s.height, viewport...))
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, text := range p.complaints() {
			if !p.provoked && !strings.HasPrefix(text, "network: ") {
				t.Errorf("the console says: %s", text)
			}
		}
	})
	return p
}

// listen collects what a developer would see in the console.
func (p *tab) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for m, err := range messages {
		if err != nil {
			return
		}
		if m.Type != chromedp.ConsoleDebug && m.Type != chromedp.ConsoleInfo {
			p.mu.Lock()
			p.said = append(p.said, m.Source+": "+m.Text)
			close(p.heard)
			p.heard = make(chan struct{})
			p.mu.Unlock()
		}
	}
}

func (p *tab) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}

// awaitComplaint waits until the console has said something, and forgets all
// that it has said.
func (p *tab) awaitComplaint(part string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		p.mu.Lock()
		said, heard := p.said, p.heard
		if strings.Contains(strings.Join(said, "\n"), part) {
			p.said = nil
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		select {
		case <-heard:
		case <-ctx.Done():
			p.t.Fatalf("the console says %q, and nothing of %s", said, part)
		}
	}
}

// do carries out actions.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// value evaluates an expression that gives a string.
func (p *tab) value(expression string) string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return s
}

// run evaluates statements.
func (p *tab) run(statements string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](statements))
}

// await waits until an expression is true, on this page or the next.
func (p *tab) await(condition string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[chromedp.Void](condition))
		if err == nil {
			return
		}
		if ctx.Err() != nil { // other errors mean that the page went away
			p.t.Fatalf("%s: %v; the page says: %s", condition, err, p.value(`document.body.innerText`))
		}
	}
}

// focused is the id of what has the focus.
func (p *tab) focused() string { return p.value(`document.activeElement.id`) }

// tabTo presses Tab until the focus is on an element.
func (p *tab) tabTo(id string) {
	p.t.Helper()
	for range 10 {
		if p.focused() == id {
			return
		}
		p.do(chromedp.KeyEvent(kb.Tab))
	}
	p.t.Fatalf("%s is not reached by Tab; the focus is on %q", id, p.focused())
}

// fill types a card, by keyboard alone, and leaves the focus on the button.
func (p *tab) fill(number, expiry, cvc string) {
	p.t.Helper()
	for _, field := range [][2]string{{"number", number}, {"expiry", expiry}, {"cvc", cvc}} {
		p.tabTo(field[0])
		p.run(`document.activeElement.select()`)
		p.do(chromedp.KeyEvent(kb.Backspace), chromedp.KeyEvent(field[1]))
	}
	p.tabTo("pay")
}

// awaitError waits for a message beside a field, and checks that the focus is
// there and that assistive software is told.
func (p *tab) awaitError(id, message string) {
	p.t.Helper()
	p.await(fmt.Sprintf(`document.getElementById('%s-error').textContent !== ''`, id))
	if got := p.value(fmt.Sprintf(`document.getElementById('%s-error').textContent`, id)); got != message {
		p.t.Errorf("beside %s: %q, want %q", id, got, message)
	}
	if p.focused() != id {
		p.t.Errorf("the focus is on %q, want %s", p.focused(), id)
	}
	if invalid := p.value(`document.activeElement.getAttribute('aria-invalid')`); invalid != "true" {
		p.t.Errorf("aria-invalid is %q", invalid)
	}
	if described := p.value(`document.activeElement.getAttribute('aria-describedby')`); !strings.Contains(described, id+"-error") {
		p.t.Errorf("described by %q", described)
	}
}

// awaitNotice waits for a message about the form.
func (p *tab) awaitNotice(part string) {
	p.t.Helper()
	p.await(`document.getElementById('notice').textContent !== ''`)
	if got := p.value(`document.getElementById('notice').textContent`); !strings.Contains(got, part) {
		p.t.Errorf("the page says %q, want %q", got, part)
	}
}

// awaitReceipt waits for the receipt and returns the digits of the card on it.
func (p *tab) awaitReceipt() string {
	p.t.Helper()
	p.await(`document.getElementById('receipt') !== null && document.readyState === 'complete'`)
	return p.value(`document.getElementById('last4').textContent`)
}
