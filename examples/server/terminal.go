package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// palette colours text for a terminal. The zero palette leaves it as it is.
type palette struct{ on bool }

// newPalette returns colours for a terminal whose owner has not turned them off
// (https://no-color.org), and none for anything else.
func newPalette(w io.Writer, getenv func(string) string) palette {
	_, terminal := columns(w)
	return palette{terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
}

func (p palette) bold(s string) string { return p.paint("1", s) }
func (p palette) dim(s string) string  { return p.paint("2", s) }
func (p palette) warn(s string) string { return p.paint("33", s) }
func (p palette) link(s string) string { return p.paint("36", s) }

func (p palette) paint(code, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// drawEvery is how often a progress line is redrawn.
const drawEvery = 100 * time.Millisecond

// progress is a line at the bottom of a terminal that shows how far something has
// got. If the writer is not a terminal, it draws nothing. What is written to it
// appears above the line.
type progress struct {
	w     io.Writer
	began time.Time

	mu          sync.Mutex
	text        string
	done, total int
	drawn       bool
	stop        chan struct{} // closed to stop drawing; nil while nothing draws
	stopped     chan struct{}
}

func newProgress(w io.Writer) *progress { return &progress{w: w, began: time.Now()} }

// set says what is being done, and how many of how many steps are done. A total
// of 0 means that it is unknown. The line is shown from the first call until
// clear.
func (p *progress) set(text string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.done, p.total = text, done, total
	if _, terminal := columns(p.w); terminal && p.stop == nil {
		p.stop, p.stopped = make(chan struct{}), make(chan struct{})
		go p.keepDrawing(p.stop, p.stopped)
	}
}

// Write puts lines above the progress line.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	return p.w.Write(b)
}

// clear stops drawing and erases the line.
func (p *progress) clear() {
	p.mu.Lock()
	stop, stopped := p.stop, p.stopped
	p.stop = nil
	p.mu.Unlock()
	if stop != nil {
		close(stop)
		<-stopped
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *progress) erase() {
	if p.drawn {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// keepDrawing redraws the line regularly, so that the time it shows advances.
func (p *progress) keepDrawing(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	tick := time.NewTicker(drawEvery)
	defer tick.Stop()
	for {
		p.draw()
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	width, _ := columns(p.w)
	_, _ = io.WriteString(p.w, "\r"+p.line(width, time.Since(p.began))+"\x1b[K")
	p.drawn = true
}

// Widths of a progress line.
const (
	unknownWidth = 80 // of a terminal that does not say
	maxBar       = 30
	minBar       = 10
)

// line is the progress line for a terminal of the given width. The last column
// stays free: some terminals wrap when it is used. The bar is left out if there
// is no room for it, and what does not fit is cut off.
func (p *progress) line(width int, took time.Duration) string {
	if width <= 0 {
		width = unknownWidth
	}
	end := fmt.Sprintf("  %s", took.Round(time.Second))
	if p.total > 0 {
		done := min(p.done, p.total)
		end = fmt.Sprintf("  %d of %d%s", done, p.total, end)
		if room := min(width-1-len(p.text)-len(end)-4, maxBar); room >= minBar {
			full := room * done / p.total
			end = "  [" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "]" + end
		}
	}
	line := p.text + end
	return line[:min(len(line), width-1)]
}
