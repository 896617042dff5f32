package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
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

// follow streams the news of a source as HTML until the source ends, the browser
// disconnects, the user loses the right to see them, or the console stops. It skips
// news without HTML.
func follow[K comparable, T any](q *request, all *feeds[K, T], source K, event string, html func(T) []byte) error {
	news, leave := all.join(source)
	defer leave()
	s, err := q.stream()
	if err != nil {
		return err
	}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-q.r.Context().Done():
			return errGone
		case <-q.opts.Stop:
			return nil
		case value, ok := <-news:
			if !ok {
				return nil
			}
			if data := html(value); len(data) > 0 {
				err = s.send(event, data)
			}
		case <-tick.C:
			err = s.write(":\n\n") // a comment
		}
		if err != nil {
			return err
		}
	}
}

// feeds are sources of news for open pages. Each source works once for all pages that
// show it, and stops when the last of them is closed.
type feeds[K comparable, T any] struct {
	room int // for news that a page has not shown yet
	// follow sends the news of a source until ctx ends. It may end earlier; then the
	// streams of its pages end too, and the browsers reconnect.
	follow func(ctx context.Context, source K, send func(T))

	mu  sync.Mutex
	all map[K]*feed[T]
}

// feed is a source that pages show.
type feed[T any] struct {
	pages map[chan T]bool
	stop  context.CancelFunc
}

// join adds a page until leave is called.
func (f *feeds[K, T]) join(source K) (news <-chan T, leave func()) {
	c := make(chan T, f.room)
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.all[source]
	if one == nil {
		if f.all == nil {
			f.all = map[K]*feed[T]{}
		}
		ctx, stop := context.WithCancel(context.Background()) //nolint:gosec // end calls it
		one = &feed[T]{pages: map[chan T]bool{}, stop: stop}
		f.all[source] = one
		go f.run(ctx, source, one)
	}
	one.pages[c] = true
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(one.pages, c)
		if len(one.pages) == 0 {
			f.end(source, one)
		}
	}
}

// run sends news to the pages of a source.
func (f *feeds[K, T]) run(ctx context.Context, source K, one *feed[T]) {
	f.follow(ctx, source, func(news T) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for c := range one.pages {
			select {
			case c <- news:
			default: // a slow browser misses news; the page has them after a reload
			}
		}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(source, one)
	for c := range one.pages {
		close(c)
		delete(one.pages, c)
	}
}

// end stops a source. The caller holds the lock.
func (f *feeds[K, T]) end(source K, one *feed[T]) {
	one.stop()
	if f.all[source] == one {
		delete(f.all, source)
	}
}
