package console

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// hub computes the overview once for all open pages. It stops while no page is
// open.
type hub struct {
	h *handler

	mu      sync.Mutex
	screens map[chan []byte]span
	running bool

	looking sync.Mutex // so that concurrent pages query the database once
	last    *overview
	looked  time.Time
}

func newHub(h *handler) *hub { return &hub{h: h, screens: map[chan []byte]span{}} }

// databaseEvery is how often the database is queried. Figures of the process are
// newer.
const databaseEvery = 10 * time.Second

// look returns the overview. Its figures from the database are at most
// databaseEvery old.
func (b *hub) look(ctx context.Context) (*overview, error) {
	b.looking.Lock()
	defer b.looking.Unlock()
	if b.last != nil && time.Since(b.looked) < databaseEvery {
		return b.last, nil
	}
	o, err := b.h.lookAtDatabase(ctx)
	if err != nil {
		return nil, err
	}
	b.last, b.looked = o, time.Now()
	return o, nil
}

// join adds a screen. It gets the overview as HTML until leave is called.
func (b *hub) join(s span) (news <-chan []byte, leave func()) {
	c := make(chan []byte, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.screens[c] = s
	if !b.running {
		b.running = true
		go b.run()
	}
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.screens, c)
	}
}

// run sends news to the screens until no screen is left.
func (b *hub) run() {
	tick := time.NewTicker(b.h.opts.Refresh)
	defer tick.Stop()
	for range tick.C {
		if !b.round() {
			return
		}
	}
}

// round sends the news once, and reports whether a screen is left.
func (b *hub) round() bool {
	ctx, cancel := context.WithTimeout(context.Background(), databaseEvery)
	defer cancel()
	wanted := b.wanted()
	if wanted == nil {
		return false
	}
	news := map[string][]byte{}
	for name, s := range wanted {
		var html bytes.Buffer
		o, err := b.h.overview(ctx, s)
		if err == nil {
			err = pages["overview"].ExecuteTemplate(&html, "live", o)
		}
		if err != nil {
			continue // the page keeps its old figures until the next round
		}
		news[name] = html.Bytes()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for c, s := range b.screens {
		if news[s.name] == nil {
			continue
		}
		select {
		case c <- news[s.name]:
		default: // a slow browser misses a round
		}
	}
	return true
}

// wanted returns the spans that screens show. Without screens it returns nil, and
// the hub stops.
func (b *hub) wanted() map[string]span {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.screens) == 0 {
		b.running = false
		return nil
	}
	all := map[string]span{}
	for _, s := range b.screens {
		all[s.name] = s
	}
	return all
}
