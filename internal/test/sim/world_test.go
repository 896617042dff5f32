//go:build !race

// Package sim has a simulator: several nodes of a vault in one process, on one
// database in memory, with faults at every seam. A seed decides everything, so
// that a failure can be repeated.
//
// A seam is a place where a vault leaves its process, such as a call of the
// database. A goroutine that comes to a seam waits there. When all goroutines
// wait, the world lets one of them pass, which the seed chooses. The seed also
// chooses what happens to it: see fate. Time is the fake time of
// testing/synctest, and passes only while every goroutine waits.
//
// The package does not run under the race detector, which makes the order of
// goroutines random.
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/model"
	"github.com/seed-72ea4aab/vault/storage"
)

// world is one history.
type world struct {
	testing.TB
	plan
	db  *model.DB
	key *vault.Key // the master key
	own *vault.Key // of the tenant with its own key
	has features

	tenants []uuid.UUID
	doomed  uuid.UUID // a tenant that clients delete
	reactor uuid.UUID
	public  string // the key of a public application

	began   time.Time
	arrived chan struct{} // has an element when a goroutine came to a seam
	over    chan struct{} // closed when nothing waits at seams any more

	mu       sync.Mutex
	parked   []*call
	step     int
	calm     bool // no faults from now on
	finished bool
	struck   []strike
	stalled  time.Duration // time that passed while goroutines could have proceeded
	passed   map[int]int   // the step at which a goroutine last passed a seam
	lines    []string      // of the trace, of this step
	sum      uint64        // of the trace
	slots    []*node
	ghosts   []*node
	book     book
	keys     credentials
	erased   map[storage.ID]int // the newest key of each tenant's deleted tokens
	outside  outside
	failures []string
}

// plan is what a history depends on.
type plan struct {
	seed  uint64
	leave map[int]bool // steps at which nothing bad may happen
	print bool
}

// call is a goroutine at a seam.
type call struct {
	node *node // nil for a client
	what string
	from int // the goroutine
	last int // the step at which it last passed a seam; 0 if it never did
	kind seam
	pass chan fate
}

// strike is a fault that happened.
type strike struct {
	step int
	line string
}

// draw returns random numbers for a purpose and its n-th use. They do not depend on
// what was drawn before, so that a history without one of its faults is similar.
func (p *plan) draw(purpose string, n int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(purpose))
	return rand.New(rand.NewPCG(p.seed, h.Sum64()+uint64(n)*0x9e3779b97f4a7c15))
}

// logf adds a line to the trace.
func (w *world) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%5d %11s  ", w.step, time.Since(w.began).Round(time.Microsecond))+fmt.Sprintf(format, args...))
}

// endStep puts the lines of a step into the trace, in an order that does not depend on
// which of several goroutines was woken first.
func (w *world) endStep() {
	slices.Sort(w.lines)
	h := fnv.New64a()
	for _, line := range w.lines {
		fmt.Fprintf(h, "%d%s", w.sum, line)
		w.sum = h.Sum64()
		if w.print {
			fmt.Println(line)
		}
	}
	w.lines = w.lines[:0]
}

// park waits at a seam, and returns what happens there.
func (w *world) park(n *node, kind seam, what string) fate {
	c := &call{node: n, what: what, from: goroutine(), kind: kind, pass: make(chan fate)}
	w.mu.Lock()
	c.last = w.passed[c.from]
	w.parked = append(w.parked, c)
	w.mu.Unlock()
	select {
	case w.arrived <- struct{}{}:
	default:
	}
	select {
	case f := <-c.pass:
		return f
	case <-w.over:
		return fate{kind: gone}
	}
}

// compare orders calls independently of the order in which they came, because timers
// of the same moment fire in a random order.
func compare(a, b *call) int {
	return cmp.Or(cmp.Compare(a.node.name(), b.node.name()), cmp.Compare(a.what, b.what), cmp.Compare(a.last, b.last), cmp.Compare(a.from, b.from))
}

// goroutine returns the number of the calling goroutine. An older goroutine has a lower
// number.
func goroutine() int {
	var text [64]byte
	var n int
	if _, err := fmt.Sscanf(string(text[:runtime.Stack(text[:], false)]), "goroutine %d ", &n); err != nil {
		panic(err)
	}
	return n
}

// next removes a call that may proceed from the parked ones. Otherwise it returns
// how long to wait until one may.
func (w *world) next() (*call, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := time.Hour
	var ready []*call
	for _, c := range w.parked {
		switch {
		case c.node == nil:
			ready = append(ready, c)
		case c.node.gone:
		case time.Until(c.node.until) > 0:
			wait = min(wait, time.Until(c.node.until))
		default:
			ready = append(ready, c)
		}
	}
	if len(ready) == 0 {
		return nil, wait
	}
	slices.SortFunc(ready, compare)
	w.endStep()
	w.step++
	c := ready[w.draw("next", w.step).IntN(len(ready))]
	w.passed[c.from] = w.step
	w.parked = slices.DeleteFunc(w.parked, func(o *call) bool { return o == c })
	return c, 0
}

// A history that takes more is stuck.
const (
	mostSteps = 300_000
	longest   = 7 * 24 * time.Hour
)

// drive lets one goroutine after the other pass its seam, until the history is
// finished.
func (w *world) drive() {
	for {
		synctest.Wait()
		w.mu.Lock()
		finished := w.finished
		w.mu.Unlock()
		if finished {
			return
		}
		if w.step > mostSteps || time.Since(w.began) > longest {
			panic(fmt.Sprintf("the history of seed %d does not end", w.seed)) // its goroutines never will
		}
		c, wait := w.next()
		if c == nil {
			select {
			case <-w.arrived:
			case <-time.After(wait):
			}
			continue
		}
		w.pass()
		c.pass <- w.fate(c)
	}
}

// pass lets a little time pass, and sometimes much.
func (w *world) pass() {
	r := w.draw("time", w.step)
	d := time.Duration(r.ExpFloat64() * float64(200*time.Microsecond))
	w.mu.Lock()
	calm := w.calm
	w.mu.Unlock()
	if !calm {
		switch n := r.IntN(4000); {
		case n < 4:
			d = 10*time.Second + upTo(r, 20*time.Minute)
		case n < 40:
			d = upTo(r, 15*time.Second)
		}
	}
	if d > time.Second {
		w.stalled += d
	}
	time.Sleep(d)
}

// finish ends the drive.
func (w *world) finish() {
	w.mu.Lock()
	w.finished = true
	w.endStep()
	w.mu.Unlock()
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// setStorm begins the faults.
func (w *world) setStorm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = false
}

// setCalm ends the faults, and all pauses.
func (w *world) setCalm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
	for _, n := range w.slots {
		if n != nil {
			n.until = time.Time{}
		}
	}
}

// seam is the kind of a seam, which decides what may happen there.
type seam uint8

const (
	aClient seam = iota // nothing happens to clients
	aRead
	aWrite
	aKey
	anAnswer // a call was carried out, and its result is on the way
	elsewhere
)

// fate is what happens to a call.
type fate struct {
	kind  fateKind
	after time.Duration
	coin  bool
}

type fateKind uint8

const (
	fine  fateKind = iota
	fails          // an error before the call
	lost           // an error after the call
	slow           // a delay before the call
	late           // a delay after the call
	hangs          // no result until the deadline
	dies           // the node stops before the call
	died           // the node stops after the call
	gone           // the history is over
)

var fateNames = [...]string{"", "FAILS", "LOST", "SLOW", "LATE", "HANGS", "DIES", "DIED", ""}

// fate chooses what happens to a call, and stops or pauses its node.
func (w *world) fate(c *call) fate {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm || c.node == nil || w.leave[w.step] {
		return fate{}
	}
	r := w.draw("fate", w.step)
	storm := w.draw("storm", 0).Float64() * 0.06
	f := fate{coin: r.IntN(2) == 0, after: time.Duration(r.ExpFloat64() * float64(700*time.Millisecond))}
	if r.Float64() >= storm {
		return fate{}
	}
	n := r.IntN(100)
	if c.kind == anAnswer { // it dies, is paused, or nothing happens
		n += 64
	}
	switch {
	case n >= 100:
		return fate{}
	case n >= 94:
		f.kind = dies
	case n >= 88:
		f.kind = died
	case n >= 64: // its result waits, or itself
		c.node.until = time.Now().Add(upTo(r, 40*time.Second))
		f.kind, f.after = slow, 0
		if n >= 76 {
			f.kind = late
		}
		w.strike(c, "PAUSED for "+time.Until(c.node.until).String())
		return f
	case n >= 56:
		f.kind = hangs
	case n >= 44:
		f.kind = slow
	case n >= 28:
		f.kind = late
	case n >= 14:
		f.kind = lost
	default:
		f.kind = fails
	}
	if f.kind == dies || f.kind == died {
		c.node.gone = true
		w.ghosts = append(w.ghosts, c.node)
	}
	w.strike(c, fateNames[f.kind])
	return f
}

// strike records a fault.
func (w *world) strike(c *call, what string) {
	w.struck = append(w.struck, strike{w.step, fmt.Sprintf("step %d, %s: %s %s", w.step, c.node.name(), c.what, what)})
}

// through runs a call at a seam as its fate decides.
func (n *node) through(ctx context.Context, kind seam, what string, do func() error) (err error) {
	f := n.w.park(n, kind, what)
	defer func() {
		if !errors.Is(err, errGone) {
			n.w.logf("%s %s %s%s", n.name(), what, fateNames[f.kind], outcomeText(err))
		}
	}()
	switch f.kind {
	case gone:
		return errGone
	case fails:
		return errFault
	case slow:
		if err := n.wait(ctx, f.after, what); err != nil {
			return err
		}
		return do()
	case lost:
		if err := do(); err != nil {
			return err
		}
		return errLost
	case late:
		err := do()
		return cmp.Or(n.wait(context.WithoutCancel(ctx), f.after, what+" returns"), err)
	case hangs:
		return n.hang(ctx, kind, f.coin, do)
	case dies:
		n.w.logf("%s %s DIES", n.name(), what)
		return n.die()
	case died:
		n.w.logf("%s %s DIED%s", n.name(), what, outcomeText(do()))
		return n.die()
	default:
		return do()
	}
}

// wait waits, and then until the node may proceed.
func (n *node) wait(ctx context.Context, d time.Duration, what string) error {
	n.w.sleep(ctx, d)
	switch n.w.park(n, anAnswer, what).kind {
	case gone:
		return errGone
	case dies, died:
		return n.die()
	default:
		return nil
	}
}

// longestHang is how long a call of a database or another service waits for it.
const longestHang = 20 * time.Second

// hang waits for the deadline of a call. A read ends with its context. A write of the
// database does not, and may have happened. So may a call of another service.
func (n *node) hang(ctx context.Context, kind seam, happens bool, do func() error) error {
	if happens && (kind == aWrite || kind == elsewhere) {
		if err := do(); err != nil {
			return err
		}
	}
	if kind == aWrite {
		n.w.sleep(context.WithoutCancel(ctx), longestHang)
		n.w.woke()
		return errLost
	}
	n.w.sleep(ctx, longestHang)
	n.w.woke()
	if err := ctx.Err(); err != nil {
		return err
	}
	return errFault
}

// woke waits for a goroutine's turn after it has waited for a time.
func (w *world) woke() { w.park(nil, aClient, "wakes") }

// sleep waits, until the context ends or the history is over.
func (w *world) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-w.over:
	}
}

// die ends the node. Its goroutines get no further until the history is over.
func (n *node) die() error {
	close(n.dead)
	<-n.w.over
	return errGone
}

// upTo returns a random duration below another.
func upTo(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}
