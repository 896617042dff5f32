package browser

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// Screen is the screen of a tab.
type Screen struct {
	Width, Height int64
	Phone, Dark   bool
}

// Tab is a page in the browser. Its methods end the test when they fail.
type Tab struct {
	T   *testing.T
	Ctx context.Context // for actions of chromedp without a method of Tab
	// Provoked means that the test expects messages in the console.
	Provoked bool

	frames map[target.ID]*Tab // that Frames has found
	hidden bool               // the browser may not paint it

	mu    sync.Mutex
	said  []string      // warnings and errors in the console
	heard chan struct{} // closed when there is another message
}

// unknownFeature is what Chromium says about a permission that other browsers know.
const unknownFeature = "other: Unrecognized feature: 'autofill'."

// Open opens a tab with a new profile. When the test ends, the tab's console
// must have reported nothing except error responses.
func Open(t *testing.T, s Screen) *Tab {
	t.Helper()
	return open(t, shared(t), s, chromedp.WithNewBrowserContext())
}

// Another opens a tab with the same profile.
func (p *Tab) Another(s Screen) *Tab {
	p.T.Helper()
	return open(p.T, p.Ctx, s)
}

func open(t *testing.T, parent context.Context, s Screen, opts ...chromedp.ContextOption) *Tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(parent, opts...)
	t.Cleanup(closeTab)
	p := &Tab{T: t, Ctx: ctx, heard: make(chan struct{}), frames: map[target.ID]*Tab{}}
	go p.listen(chromedp.Console(ctx))
	p.emulate(s)
	t.Cleanup(func() {
		for _, text := range p.Complaints() {
			if !p.Provoked && !strings.HasPrefix(text, "network: ") && text != unknownFeature {
				t.Errorf("the console says: %s", text)
			}
		}
	})
	return p
}

// emulate sets the screen of the tab, without animations.
func (p *Tab) emulate(s Screen) {
	p.T.Helper()
	viewport := []chromedp.EmulateViewportOption{chromedp.EmulateScale(1)}
	if s.Phone {
		viewport = append(viewport, chromedp.EmulateMobile, chromedp.EmulateTouch, chromedp.EmulatePortrait)
	}
	p.Do(chromedp.EmulateViewport(s.Width, s.Height, viewport...))
	scheme := "light"
	if s.Dark {
		scheme = "dark"
	}
	must.Get(chromedp.Call(p.Ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}))(p.T)
}

// listen collects the warnings and errors in the console.
func (p *Tab) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
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

// Frames returns the documents with an address in the page's frames of other origins, so
// that a test sees what the page cannot see.
func (p *Tab) Frames(address string) (all []*Tab) {
	p.T.Helper()
	own := cdp.FrameID(chromedp.FromContext(p.Ctx).Target.TargetID) // the id of the main frame too
	for _, found := range must.Get(chromedp.Targets(p.Ctx))(p.T) {
		if found.URL != address || found.ParentFrameID != own {
			continue
		}
		f := p.frames[found.TargetID]
		if f == nil {
			ctx, cancel := chromedp.NewContext(p.Ctx, chromedp.WithTargetID(found.TargetID))
			p.T.Cleanup(cancel)
			must.Do(p.T, chromedp.Do(ctx)) // attaches for the whole test
			f = &Tab{T: p.T, Ctx: ctx, hidden: true}
			p.frames[found.TargetID] = f
		}
		all = append(all, f)
	}
	return all
}

// Window opens a window, as a click in the page could, and returns its document. The page has
// the window as window.opened.
func (p *Tab) Window(address string) *Tab {
	p.T.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](`window.opened = open('`+address+`'); 0`, func(e *runtime.EvaluateParams) { e.UserGesture = new(true) }))
	ctx, cancel := p.patient()
	defer cancel()
	for {
		for _, found := range must.Get(chromedp.Targets(ctx))(p.T) {
			if found.URL != address || found.Type != "page" {
				continue
			}
			at, cancel := chromedp.NewContext(p.Ctx, chromedp.WithTargetID(found.TargetID))
			p.T.Cleanup(cancel)
			must.Do(p.T, chromedp.Do(at)) // attaches for the whole test
			return &Tab{T: p.T, Ctx: at, hidden: true}
		}
	}
}

// Complaints returns the warnings and errors in the console.
func (p *Tab) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}

// AwaitComplaint waits until the console has reported a text, and then clears
// all messages.
func (p *Tab) AwaitComplaint(part string) {
	p.T.Helper()
	ctx, cancel := p.patient()
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
			p.T.Fatalf("the console says %q, and nothing of %s", said, part)
		}
	}
}

func (p *Tab) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.Ctx, patience)
}

// Do performs actions.
func (p *Tab) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	ctx, cancel := p.patient()
	defer cancel()
	must.Do(p.T, chromedp.Do(ctx, actions...))
}

// AcceptCertificates lets the tab open pages of servers with any certificate.
func (p *Tab) AcceptCertificates() {
	p.T.Helper()
	must.Get(chromedp.Call(p.Ctx, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true}))(p.T)
}

// Navigate opens a page and waits until it is loaded.
func (p *Tab) Navigate(address string) {
	p.T.Helper()
	p.Do(chromedp.Navigate(address))
}

// Press presses keys, given as characters or as constants of chromedp/kb.
func (p *Tab) Press(keys string) {
	p.T.Helper()
	p.Do(chromedp.KeyEvent(keys))
}

// Run evaluates JavaScript statements.
func (p *Tab) Run(statements string) {
	p.T.Helper()
	p.Do(chromedp.Evaluate[chromedp.Void](statements))
}

// Value evaluates an expression, or a promise, whose value is a string.
func (p *Tab) Value(expression string) string {
	p.T.Helper()
	ctx, cancel := p.patient()
	defer cancel()
	s, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.T.Fatalf("%s: %v", expression, err)
	}
	return s
}

// Await waits until an expression is true, on this page or the next.
func (p *Tab) Await(condition string) {
	p.T.Helper()
	ctx, cancel := p.patient()
	defer cancel()
	var opts []chromedp.PollOption
	if p.hidden { // the default polls when the browser paints
		opts = append(opts, chromedp.WithPollingInterval(20*time.Millisecond))
	}
	for {
		_, err := chromedp.Run(ctx, chromedp.Poll[chromedp.Void](condition, opts...))
		if err == nil {
			return
		}
		if ctx.Err() != nil { // other errors mean that the page was left
			p.T.Fatalf("%s: %v; the page says: %s", condition, err, p.Value(`document.body.innerText`))
		}
	}
}
