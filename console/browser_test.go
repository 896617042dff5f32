package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
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
const patience = 60 * time.Second

// browser is the Chromium that all tests share.
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
	temp, err := os.MkdirTemp("", "vault-console-")
	if err != nil {
		browser.err = err
		return
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path), chromedp.Env("TMPDIR="+temp), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
	)
	ctx, stopBrowser := chromedp.NewContext(alloc)
	browser.stop = func() error {
		stopBrowser()
		stopAlloc()
		return os.RemoveAll(temp)
	}
	browser.ctx, browser.err = ctx, chromedp.Do(ctx)
}

// screen is what a page is shown on.
type screen struct {
	width, height int64
	phone, dark   bool
}

var screens = map[string]screen{
	"desktop": {width: 1280, height: 900}, "dark desktop": {width: 1280, height: 900, dark: true},
	"phone": {width: 360, height: 780, phone: true}, "dark phone": {width: 360, height: 780, phone: true, dark: true},
}

// tab is a page in a browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex
	said []string
}

// newTab opens a tab in a new profile. When the test ends, its console must have
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
	ctx, closeTab := chromedp.NewContext(browser.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(closeTab)
	p := &tab{t: t, ctx: ctx}
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
		{Name: "prefers-color-scheme", Value: scheme},
	}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, text := range p.said {
			if !strings.HasPrefix(text, "network: ") {
				t.Errorf("the console says: %s", text)
			}
		}
	})
	return p
}

func (p *tab) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for m, err := range messages {
		if err != nil {
			return
		}
		if m.Type != chromedp.ConsoleDebug && m.Type != chromedp.ConsoleInfo {
			p.mu.Lock()
			p.said = append(p.said, m.Source+": "+m.Text)
			p.mu.Unlock()
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

func (p *tab) open(address string) { p.t.Helper(); p.do(chromedp.Navigate(address)) }

// value evaluates an expression that gives a string.
func (p *tab) value(expression string) string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return s
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

// tabTo presses Tab until what has the focus meets a condition on it, called e.
func (p *tab) tabTo(condition string) {
	p.t.Helper()
	for range 120 {
		p.do(chromedp.KeyEvent(kb.Tab))
		if p.value(`String(((e) => `+condition+`)(document.activeElement))`) == "true" {
			if outline := p.value(`getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
				p.t.Errorf("the outline of what has the focus (%s) is %s", condition, outline)
			}
			return
		}
	}
	p.t.Fatalf("not reached by Tab: %s; on %s", condition, p.value(`location.href`))
}

// enter presses Enter on what has the focus, and waits for the page that follows.
func (p *tab) enter(path string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(kb.Enter))
	p.await(fmt.Sprintf(`document.readyState === 'complete' && location.pathname.endsWith(%q)`, path))
}

// axe is the source of axe-core, which npm installs.
var axe struct {
	once sync.Once
	text string
	err  error
}

// axeSource installs axe-core once for all tests.
func axeSource(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("there is no npm here to install axe-core with")
	}
	axe.once.Do(func() {
		dir, err := os.MkdirTemp("", "vault-axe-")
		if err != nil {
			axe.err = err
			return
		}
		defer func() { _ = os.RemoveAll(dir) }()
		for _, name := range []string{"package.json", "package-lock.json"} {
			text, err := os.ReadFile("testdata/" + name)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
			}
			if err != nil {
				axe.err = err
				return
			}
		}
		cmd := exec.Command(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			axe.err = fmt.Errorf("is the registry of npm within reach? %w\n%s", err, out)
			return
		}
		text, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
		axe.text, axe.err = string(text), err
	})
	if axe.err != nil {
		t.Fatal(axe.err)
	}
	return axe.text
}

// violations judges the page with axe-core.
func (p *tab) violations(source string) []string {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](source + "; undefined"))
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	const run = `axe.run(document, {resultTypes: ['violations']}).then((r) => JSON.stringify(r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.target.join(' ') + ' ' + n.failureSummary).slice(0, 3).join(' | '))))`
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](run, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	var all []string
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		p.t.Fatal(err)
	}
	return all
}
