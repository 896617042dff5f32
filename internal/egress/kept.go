package egress

import (
	"bufio"
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault/internal/bounded"
)

// Keep lets requests share connections that [http.Transport] may not have. Transport
// prints what arrives on an idle connection, may give it to the next request, and
// repeats requests that a destination may have seen.
type Keep struct {
	// Holder is who shares the connections. A connection serves one tenant, holder and
	// destination.
	Holder string
	// Carry is called before a request is written to a connection, with its result for
	// the request before, or nil. If ok is false, the connection is closed, and another
	// one takes the request. It is called again if that was in vain.
	Carry func(before any) (after any, ok bool)
}

// Untraced returns a context without the hooks of package httptrace. They would see the
// headers of requests, and of informational responses.
func Untraced(ctx context.Context) context.Context { return untraced{ctx} }

type untraced struct{ context.Context }

func (c untraced) Value(key any) any {
	v := c.Context.Value(key)
	if _, ok := v.(*httptrace.ClientTrace); ok {
		return nil
	}
	return v
}

// Limits on kept connections that are idle. Beyond them, the longest idle one of the
// tenant, or of its connections to the host, is closed.
const (
	maxKept        = 4096 // of all tenants
	maxKeptTenant  = 128
	maxKeptPerHost = 32 // of one tenant
	keptTimeout    = 90 * time.Second
)

// kept holds the connections of requests with [Keep]. Each has one request at a time.
type kept struct {
	*Policy
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu     sync.Mutex
	closed bool
	idle   list.List                        // *link, longest idle first
	byKey  map[linkKey][]*link              // in idle, longest idle first
	habits bounded.Map[linkHost, *idleTime] // of destinations
}

// linkHost is a destination of a tenant.
type linkHost struct{ tenant, scheme, host string }

// linkKey identifies the requests that may use a connection.
type linkKey struct {
	linkHost
	holder string
}

// link is a connection.
type link struct {
	key    linkKey
	conn   net.Conn
	count  *countedConn // below TLS
	limit  *io.LimitedReader
	reader *bufio.Reader
	writer *bufio.Writer
	used   bool // a request has been written
	memory any  // what Carry returned

	// While it is idle:
	since   time.Time
	usable  time.Duration // how long the destination promises to keep it open; 0 if unknown
	element *list.Element
	watched chan struct{} // closed when watch has stopped reading
	err     error         // why
}

func newKept(p *Policy, dial func(ctx context.Context, network, address string) (net.Conn, error)) *kept {
	return &kept{Policy: p, dial: dial, byKey: map[linkKey][]*link{}}
}

// roundTrip sends a request. It is sent again only if nothing of it was written.
func (k *kept) roundTrip(req *http.Request, tenant string, keep *Keep) (*http.Response, error) {
	key := linkKey{linkHost{tenant, req.URL.Scheme, req.URL.Host}, keep.Holder}
	for {
		x, err := k.link(req, key, keep)
		if err != nil {
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return nil, err
		}
		again := x.used
		resp, err := k.exchange(x, req)
		if err == nil || !again || !isRepeatable(req) || x.count.written.Load() > 0 {
			return resp, err
		}
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// isRepeatable reports whether the body of a request is in memory.
func isRepeatable(req *http.Request) bool { return req.Body == nil || req.GetBody != nil }

// link returns an idle connection, or a new one.
func (k *kept) link(req *http.Request, key linkKey, keep *Keep) (x *link, err error) {
	for x = k.take(key); x != nil; x = k.take(key) {
		var ok bool
		if x.memory, ok = keep.Carry(x.memory); ok {
			return x, nil
		}
		_ = x.conn.Close()
	}
	x = &link{key: key}
	if err := k.connect(req.Context(), x, req.URL); err != nil {
		return nil, err
	}
	x.limit = &io.LimitedReader{R: x.conn, N: math.MaxInt64}
	x.reader, x.writer = bufio.NewReader(x.limit), bufio.NewWriter(x.conn)
	x.memory, _ = keep.Carry(nil)
	return x, nil
}

// connect opens the connection of a link.
func (k *kept) connect(ctx context.Context, x *link, u *url.URL) error {
	port := cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
	raw, err := k.dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	x.count = &countedConn{Conn: raw}
	if x.conn = x.count; u.Scheme != "https" {
		return nil
	}
	secured := tls.Client(x.count, &tls.Config{
		ServerName: u.Hostname(), RootCAs: k.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	})
	ctx, cancel := context.WithTimeout(ctx, k.TLSTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return err
	}
	x.conn = secured
	return nil
}

// take returns an idle connection that the destination is not about to close, or nil.
func (k *kept) take(key linkKey) *link {
	for {
		x := k.pop(key)
		if x == nil || x.wake() {
			return x
		}
		_ = x.conn.Close()
	}
}

// pop removes the connection that has been idle for the shortest time. If that is
// longer than destinations are known to wait, the connection stays, so that pop can
// learn how long this destination waits.
func (k *kept) pop(key linkKey) *link {
	k.mu.Lock()
	defer k.mu.Unlock()
	some := k.byKey[key]
	if len(some) == 0 {
		return nil
	}
	h, now := k.habit(key.linkHost), time.Now()
	last := some[len(some)-1]
	for _, x := range some[:len(some)-1] {
		h.survived(now.Sub(x.since), now)
	}
	idle, safe := now.Sub(last.since), h.safe
	if last.usable > 0 && (h.until.IsZero() || last.usable < safe) {
		safe = last.usable
	}
	h.survived(idle, now)
	if idle >= safe {
		return nil
	}
	k.remove(last)
	return last
}

// remove removes an idle connection. The caller holds k.mu.
func (k *kept) remove(x *link) {
	k.idle.Remove(x.element)
	x.element = nil
	if k.byKey[x.key] = slices.DeleteFunc(k.byKey[x.key], func(o *link) bool { return o == x }); len(k.byKey[x.key]) == 0 {
		delete(k.byKey, x.key)
	}
}

// put keeps a connection for the next request.
func (k *kept) put(x *link) {
	now := time.Now()
	x.since, x.watched = now, make(chan struct{})
	if x.conn.SetReadDeadline(now.Add(keptTimeout)) != nil {
		_ = x.conn.Close()
		return
	}
	k.mu.Lock()
	over := x
	if !k.closed {
		x.element = k.idle.PushBack(x)
		k.byKey[x.key] = append(k.byKey[x.key], x)
		if over = k.crowd(x); over != nil {
			k.remove(over)
		}
		go k.watch(x)
	}
	k.mu.Unlock()
	if over != nil {
		_ = over.conn.Close()
	}
}

// crowd returns the connection that is too many after x was added, or nil. The caller
// holds k.mu.
func (k *kept) crowd(x *link) *link {
	tenant, host := 0, 0
	for e := k.idle.Back(); e != nil; e = e.Prev() {
		o := e.Value.(*link)
		if o.key.tenant != x.key.tenant {
			continue
		}
		if tenant++; o.key.linkHost == x.key.linkHost {
			host++
		}
		if tenant > maxKeptTenant || host > maxKeptPerHost {
			return o
		}
	}
	if k.idle.Len() > maxKept {
		return k.idle.Front().Value.(*link)
	}
	return nil
}

// watch waits until a connection is used again, or has been idle for too long, or the
// destination closes it or sends something. Anything sent is dropped.
func (k *kept) watch(x *link) {
	_, x.err = x.reader.Peek(1)
	close(x.watched)
	k.mu.Lock()
	idle := x.element != nil
	if idle {
		k.remove(x)
		if now := time.Now(); !errors.Is(x.err, os.ErrDeadlineExceeded) { // some send a 408 first
			k.habit(x.key.linkHost).ended(now.Sub(x.since), now)
		}
	}
	k.mu.Unlock()
	if idle {
		_ = x.conn.Close()
	}
}

// wake ends the watch of a connection, and reports whether nothing has happened to it.
func (x *link) wake() bool {
	if x.conn.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	<-x.watched
	return errors.Is(x.err, os.ErrDeadlineExceeded) && x.reader.Buffered() == 0 && x.conn.SetReadDeadline(time.Time{}) == nil
}

// close closes the idle connections. Those of requests in progress are not kept.
func (k *kept) close() {
	k.mu.Lock()
	var all []*link
	for e := k.idle.Front(); e != nil; e = k.idle.Front() {
		x := e.Value.(*link)
		all = append(all, x)
		k.remove(x)
	}
	k.closed = true
	k.mu.Unlock()
	for _, x := range all {
		_ = x.conn.Close()
		<-x.watched
	}
}

// maxHabits bounds the destinations whose habits are known.
const maxHabits = 1000

// habit returns how long a destination leaves connections open. The caller holds k.mu.
func (k *kept) habit(host linkHost) *idleTime {
	h := k.habits[host]
	if h == nil {
		h = &idleTime{safe: firstIdle}
		k.habits.Put(maxHabits, host, h)
	}
	return h
}

// idleTime is how long a destination leaves idle connections open. A request on a
// connection that is being closed is lost, and must not be sent again. So connections
// are used only as long as others have stayed open before.
type idleTime struct {
	safe  time.Duration
	until time.Time // safe does not grow before, because the destination closed a connection
}

const (
	firstIdle   = 4 * time.Second // servers that close early do so after 5 seconds
	idleMargin  = time.Second     // for clocks and the way
	idleCaution = 10 * time.Minute
)

// survived notes that a connection is open after it was idle for some time.
func (h *idleTime) survived(idle time.Duration, now time.Time) {
	if now.After(h.until) {
		h.safe = max(h.safe, lessMargin(idle))
	}
}

// ended notes that the destination closed a connection that was idle for some time.
func (h *idleTime) ended(idle time.Duration, now time.Time) {
	h.safe, h.until = lessMargin(idle), now.Add(idleCaution)
}

func lessMargin(idle time.Duration) time.Duration { return max(0, idle-idleMargin) }

// announced returns the idle time that the Keep-Alive header announces, less a
// margin, or 0.
func announced(h http.Header) time.Duration {
	for part := range strings.SplitSeq(h.Get("Keep-Alive"), ",") {
		if text, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(part)), "timeout="); ok {
			if seconds, err := strconv.ParseUint(text, 10, 16); err == nil {
				return max(lessMargin(time.Duration(seconds)*time.Second), 1)
			}
		}
	}
	return 0
}

// turn is one request and its response on a connection.
type turn struct {
	*link
	*kept
	req   *http.Request
	stop  func() bool  // ends the wait for the end of the context
	timer *time.Timer  // for the headers of the response
	state atomic.Int32 // waiting, arrived or late
	wrote chan error
	once  sync.Once
}

const (
	waiting int32 = iota
	arrived
	late
)

// never is longer than any request takes.
const never = 1 << 62

// exchange sends a request on a connection and returns the response. When its body has
// been read, the connection is kept.
func (k *kept) exchange(x *link, req *http.Request) (*http.Response, error) {
	t := &turn{link: x, kept: k, req: req, wrote: make(chan error, 1)}
	x.used = true
	x.count.written.Store(0)
	t.stop = context.AfterFunc(req.Context(), func() { _ = x.conn.Close() })
	t.timer = time.AfterFunc(never, func() {
		if t.state.CompareAndSwap(waiting, late) {
			_ = x.conn.Close()
		}
	})
	go func() { t.wrote <- t.write() }()
	resp, err := t.read()
	t.timer.Stop()
	if err == nil && t.state.CompareAndSwap(waiting, arrived) {
		x.usable = announced(resp.Header)
		body := &turnBody{resp.Body, t, !resp.Close && !req.Close && resp.StatusCode >= http.StatusOK}
		if resp.Body == http.NoBody {
			t.end(body.keep)
		}
		resp.Body = body
		return resp, nil
	}
	if t.state.Load() == late {
		err = os.ErrDeadlineExceeded
	}
	_ = x.count.Close() // first, because the end of TLS would count as a part of the request
	t.end(false)
	if isRepeatable(req) {
		<-t.wrote // and wrote nothing more
	}
	return nil, err
}

// write writes the request. If its own body fails, the connection is closed.
func (t *turn) write() error {
	err := t.req.Write(t.writer)
	if err == nil {
		err = t.writer.Flush()
	}
	switch {
	case err == nil:
		t.timer.Reset(t.HeaderTimeout)
	case !t.count.broken.Load(): // otherwise a response may explain it
		_ = t.conn.Close()
	}
	return err
}

// read reads the headers of the response. Informational ones count with them.
func (t *turn) read() (*http.Response, error) {
	t.limit.N = maxHeaderBytes
	for {
		resp, err := http.ReadResponse(t.reader, t.req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			t.limit.N = math.MaxInt64
			return resp, nil
		}
	}
}

// end ends the use of the connection, which is kept if the response was read and
// nothing else was sent.
func (t *turn) end(clean bool) {
	t.once.Do(func() {
		if t.stop() && clean && t.sent() && t.reader.Buffered() == 0 {
			t.put(t.link)
		} else {
			_ = t.conn.Close()
		}
	})
}

// lastWrite is how long the end of a request may take after the end of its response.
const lastWrite = 50 * time.Millisecond

// sent reports whether the whole request was written.
func (t *turn) sent() bool {
	select {
	case err := <-t.wrote:
		return err == nil
	case <-time.After(lastWrite):
		return false
	}
}

// turnBody is the body of a response. It gives the connection back at its end.
type turnBody struct {
	io.ReadCloser
	turn *turn
	keep bool
}

func (b *turnBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.turn.end(b.keep && err == io.EOF)
	}
	return n, err
}

// Close closes the connection if the body was not read to its end, which could take
// long.
func (b *turnBody) Close() error {
	b.turn.end(false)
	return nil
}
