// Package terminal draws colors and progress lines on terminals. Other output
// stays plain.
package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Palette colors text for a terminal. The zero Palette leaves text unchanged.
type Palette struct{ on bool }

// NewPalette returns a palette with colors if w is a terminal and colors are
// not turned off (https://no-color.org).
func NewPalette(w io.Writer, getenv func(string) string) Palette {
	_, terminal := Columns(w)
	return Palette{terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
}

// Bold is for headings.
func (p Palette) Bold(s string) string { return p.paint("1", s) }

// Dim is for labels.
func (p Palette) Dim(s string) string { return p.paint("2", s) }

// Good is for success.
func (p Palette) Good(s string) string { return p.paint("32", s) }

// Warn is for warnings.
func (p Palette) Warn(s string) string { return p.paint("33", s) }

// Bad is for errors.
func (p Palette) Bad(s string) string { return p.paint("31", s) }

// Link is for addresses.
func (p Palette) Link(s string) string { return p.paint("36", s) }

func (p Palette) paint(code, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// drawEvery is how often a progress line is redrawn.
const drawEvery = 100 * time.Millisecond

// Progress is a line at the bottom of a terminal that shows the progress of
// work. If the writer is not a terminal, it draws nothing. Text that is
// written to it appears above the line.
type Progress struct {
	w     io.Writer
	began time.Time

	mu      sync.Mutex
	text    string
	part    float64 // done part of the work, from 0 to 1; negative if unknown
	end     string  // text after the bar
	drawn   bool
	stop    chan struct{} // closed to stop drawing; nil while nothing is drawn
	stopped chan struct{}
}

// NewProgress returns a line that is not shown yet.
func NewProgress(w io.Writer) *Progress { return &Progress{w: w, began: time.Now()} }

// Set sets the text of the line and the number of steps. A total of 0 means
// unknown. The line is shown from the first call until Clear.
func (p *Progress) Set(text string, done, total int) {
	if total <= 0 {
		p.Show(text, -1, "")
		return
	}
	done = min(done, total)
	p.Show(text, float64(done)/float64(total), fmt.Sprintf("%d of %d", done, total))
}

// Show is Set for work that is not counted in steps. Part is the done part of
// the work, from 0 to 1, or -1 if it is unknown. End is the text after the
// bar.
func (p *Progress) Show(text string, part float64, end string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.part, p.end = text, part, end
	if _, terminal := Columns(p.w); terminal && p.stop == nil {
		p.stop, p.stopped = make(chan struct{}), make(chan struct{})
		go p.keepDrawing(p.stop, p.stopped)
	}
}

// Took returns the time since NewProgress.
func (p *Progress) Took() time.Duration { return time.Since(p.began) }

// Write writes lines above the progress line.
func (p *Progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	return p.w.Write(b)
}

// Clear stops drawing and erases the line.
func (p *Progress) Clear() {
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

// Erase removes the line until it is drawn again, so that something can be
// written to another stream of the same terminal.
func (p *Progress) Erase() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *Progress) erase() {
	if p.drawn {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// keepDrawing redraws the line regularly, so that its time advances.
func (p *Progress) keepDrawing(stop <-chan struct{}, stopped chan<- struct{}) {
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

func (p *Progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	width, _ := Columns(p.w)
	_, _ = io.WriteString(p.w, "\r"+p.line(width, time.Since(p.began))+"\x1b[K")
	p.drawn = true
}

// Widths of a progress line.
const (
	unknownWidth = 80 // if the width of the terminal is unknown
	maxBar       = 30
	minBar       = 10
)

// line returns the progress line for a terminal of the given width. The last
// column stays free, because some terminals wrap when it is used. The bar is
// left out if there is no room, and the line is truncated to the width.
func (p *Progress) line(width int, took time.Duration) string {
	if width <= 0 {
		width = unknownWidth
	}
	end := fmt.Sprintf("  %s", took.Round(time.Second))
	if p.end != "" {
		end = "  " + p.end + end
	}
	if room := min(width-1-len(p.text)-len(end)-4, maxBar); p.part >= 0 && room >= minBar {
		full := int(float64(room)*p.part + 1e-9)
		end = "  [" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "]" + end
	}
	line := p.text + end
	return line[:min(len(line), width-1)]
}
