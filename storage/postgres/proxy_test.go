package postgres_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// proxy sits between a store and the server. It records the statements that the store
// sends, with their parameters, and can cut the connection.
type proxy struct {
	address  string // of the server, through the proxy
	listener net.Listener
	server   pq.Config
	cut      atomic.Int32           // what to do with the next message: one of the constants below
	silent   sync.RWMutex           // held while nothing passes
	dialed   atomic.Pointer[func()] // called when a connection is opened, if set
	// cuts, if set, decides at which commands the store loses its connection.
	cuts atomic.Pointer[func(command string) bool]
	// most, if set, is how many bytes the server may send on a connection
	// before the store loses it. lost counts the lost connections.
	most atomic.Int64
	lost atomic.Int64
	busy sync.WaitGroup

	mu   sync.Mutex
	sent map[string][]sent // by text
}

const (
	deliver int32 = iota
	loseRequest
	loseAnswer
)

// sent holds the parameters of a statement: text, bytes in the binary format,
// or nil.
type sent []any

// maxSent is how many sets of parameters are kept for each text.
const maxSent = 3

// newProxy starts a proxy in front of a server. It stops at the end of the test.
func newProxy(tb testing.TB, address string) *proxy {
	tb.Helper()
	dir := must.Get(os.MkdirTemp("", "vaultproxy"))(tb) // a name without commas, which separate hosts
	l := must.Get(net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432")))(tb)
	u := must.Get(url.Parse(with(tb, with(tb, with(tb, address, "host", dir), "port", "5432"), "sslmode", "disable")))(tb)
	u.Host = ""
	p := &proxy{address: u.String(), listener: l, server: must.Get(pq.NewConfig(address))(tb), sent: map[string][]sent{}}
	p.busy.Go(p.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		p.busy.Wait()
		_ = os.RemoveAll(dir)
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if dialed := p.dialed.Load(); dialed != nil {
			(*dialed)()
		}
		p.busy.Go(func() { p.serve(client) })
	}
}

// serve forwards data between a client and the server until one of them ends.
func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	network, at := "tcp", net.JoinHostPort(p.server.Host, strconv.Itoa(int(p.server.Port)))
	if strings.HasPrefix(p.server.Host, "/") {
		network, at = "unix", filepath.Join(p.server.Host, fmt.Sprintf(".s.PGSQL.%d", p.server.Port))
	}
	server, err := net.Dial(network, at)
	if err != nil {
		return
	}
	defer server.Close()
	p.busy.Go(func() {
		p.answer(passing{p, client, loseAnswer}, server)
		_ = client.Close()
	})
	_ = p.listen(bufio.NewReader(io.TeeReader(client, passing{p, server, loseRequest})))
}

// passing is one direction of a connection, up to the message to lose.
type passing struct {
	p    *proxy
	to   io.Writer
	lose int32
}

func (w passing) Write(b []byte) (int, error) {
	if w.p.cut.CompareAndSwap(w.lose, deliver) {
		return 0, errCut
	}
	w.p.silent.RLock()
	defer w.p.silent.RUnlock()
	return w.to.Write(b)
}

// answer forwards the server's responses.
func (p *proxy) answer(client io.Writer, server io.Reader) {
	most := p.most.Load()
	if most == 0 {
		_, _ = io.Copy(client, server)
		return
	}
	if n, _ := io.CopyN(client, server, most); n == most {
		p.lost.Add(1)
	}
}

var errCut = errors.New("the connection is cut")

// listen reads the client's messages. The first message has no type.
func (p *proxy) listen(r *bufio.Reader) error {
	if _, err := message(r); err != nil {
		return err
	}
	texts := map[string]string{} // of prepared statements
	for {
		kind, err := r.ReadByte()
		if err != nil {
			return err
		}
		body, err := message(r)
		if err != nil {
			return err
		}
		switch kind {
		case 'P':
			name, rest, _ := strings.Cut(string(body), "\x00")
			texts[name], _, _ = strings.Cut(rest, "\x00")
		case 'B':
			_, rest, _ := bytes.Cut(body, []byte{0}) // the portal
			name, rest, _ := bytes.Cut(rest, []byte{0})
			p.add(texts[string(name)], parameters(rest))
		case 'Q':
			command := strings.TrimSuffix(string(body), "\x00")
			if cuts := p.cuts.Load(); cuts != nil && (*cuts)(command) {
				return errCut
			}
			p.add(command, nil)
		}
	}
}

// message reads a message after its type.
func message(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:])-4)
	_, err := io.ReadFull(r, body)
	return body, err
}

// parameters decodes the parameters of a Bind message: formats, then values.
func parameters(raw []byte) sent {
	short := func() (n int) {
		n, raw = int(binary.BigEndian.Uint16(raw)), raw[2:]
		return n
	}
	formats := make([]int, short())
	for i := range formats {
		formats[i] = short()
	}
	values := make(sent, short())
	for i := range values {
		size := int32(binary.BigEndian.Uint32(raw))
		if raw = raw[4:]; size < 0 {
			continue
		}
		value := raw[:size]
		raw = raw[size:]
		if len(formats) == 1 && formats[0] == 1 || len(formats) > 1 && formats[i] == 1 {
			values[i] = value
		} else {
			values[i] = string(value)
		}
	}
	return values
}

func (p *proxy) add(text string, parameters sent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all := p.sent[text]; len(all) < maxSent {
		p.sent[text] = append(all, parameters)
	}
}
