package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// beat is how often a stream without news sends a comment, so that the server
// notices a browser that has disconnected.
const beat = 15 * time.Second

// writeTime is the write timeout of an event.
const writeTime = 10 * time.Second

// eventStream is the content type of streams, also in the Accept header of
// browsers.
const eventStream = "text/event-stream"

// stream is a stream of server-sent events. It ends when the user loses the right
// to see it.
type stream struct {
	q    *request
	ctrl *http.ResponseController
}

// stream begins a stream.
func (q *request) stream() (*stream, error) {
	head := q.w.Header()
	head.Set("Content-Type", eventStream)
	head.Set("X-Accel-Buffering", "no") // so that proxies do not buffer events
	s := &stream{q, http.NewResponseController(q.w)}
	q.w.WriteHeader(http.StatusOK)
	return s, s.write("retry: 3000\n\n")
}

// send sends an event with lines of text as data.
func (s *stream) send(event string, data []byte) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\n", event)
	for line := range bytes.SplitSeq(bytes.TrimSpace(data), []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return s.write(b.String())
}

// still sends a comment, which keeps the stream alive.
func (s *stream) still() error { return s.write(":\n\n") }

func (s *stream) write(text string) error {
	if !s.q.mayStill() {
		return errRevoked
	}
	_ = s.ctrl.SetWriteDeadline(time.Now().Add(writeTime)) // where the server can
	if _, err := io.WriteString(s.q.w, text); err != nil {
		return errGone
	}
	if s.ctrl.Flush() != nil {
		return errGone
	}
	return nil
}

// each sends the values of a channel until the channel is closed, the browser
// disconnects, the user loses the right to see them, or the console stops.
func (q *request) each(s *stream, event string, from <-chan []byte) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-q.r.Context().Done():
			return errGone
		case <-q.opts.Stop:
			return nil
		case data, ok := <-from:
			if !ok {
				return nil
			}
			err = s.send(event, data)
		case <-tick.C:
			err = s.still()
		}
		if err != nil {
			return err
		}
	}
}

// followers follow the logs of tenants. Each log that open pages show is followed
// once for all of them.
type followers struct {
	h *handler

	mu  sync.Mutex
	all map[uuid.UUID]*follower
}

// follower follows one log.
type follower struct {
	screens map[chan []vault.LogEntry]bool
	stop    context.CancelFunc
}

func newFollowers(h *handler) *followers { return &followers{h: h, all: map[uuid.UUID]*follower{}} }

// join adds a screen until leave is called.
func (f *followers) join(tenant uuid.UUID) (batches <-chan []vault.LogEntry, leave func()) {
	c := make(chan []vault.LogEntry, 16)
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.all[tenant]
	if one == nil {
		ctx, stop := context.WithCancel(context.Background())
		one = &follower{screens: map[chan []vault.LogEntry]bool{}, stop: stop}
		f.all[tenant] = one
		go f.run(ctx, tenant, one)
	}
	one.screens[c] = true
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(one.screens, c)
		if len(one.screens) == 0 {
			one.stop()
			if f.all[tenant] == one {
				delete(f.all, tenant)
			}
		}
	}
}

// run sends entries to the screens. When it ends, their streams end and the
// browsers reconnect.
func (f *followers) run(ctx context.Context, tenant uuid.UUID, one *follower) {
	for batch, err := range f.h.vault.Tenant(tenant).From(fromConsole).FollowLogs(ctx, "") {
		if err != nil {
			break
		}
		f.mu.Lock()
		for c := range one.screens {
			select {
			case c <- batch.Data:
			default: // a slow browser misses entries; the page has them after a reload
			}
		}
		f.mu.Unlock()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all[tenant] == one {
		delete(f.all, tenant)
	}
	for c := range one.screens {
		close(c)
		delete(one.screens, c)
	}
}
