package postgres_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// collector is a proxy between a program and a server. It records the
// statements that the program sends, with their parameters.
type collector struct {
	address string // of the server, through the collector
	// cuts, if set, decides at which commands the program loses its connection.
	cuts atomic.Pointer[func(command string) bool]
	// most, if set, is how many bytes the server may send on a connection
	// before the program loses it. lost counts the lost connections.
	most atomic.Int64
	lost atomic.Int64

	mu   sync.Mutex
	sent map[string][]sent // by text
}

// sent holds the parameters of a statement: text, bytes in the binary format,
// or nil.
type sent []any

// maxSent is how many sets of parameters are kept for each text.
const maxSent = 3

// collect starts a collector in front of a server. It stops at the end of the
// test.
func collect(tb testing.TB, address string) *collector {
	tb.Helper()
	server := must.Get(url.Parse(address))(tb)
	network, at := "tcp", server.Host
	if dir := server.Query().Get("host"); dir != "" {
		network, at = "unix", dir+"/.s.PGSQL.5432"
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(tb)
	query := server.Query()
	query.Del("host")
	query.Set("sslmode", "disable")
	if user := query.Get("user"); user != "" {
		server.User = url.User(user)
		query.Del("user")
	}
	server.Host, server.RawQuery = l.Addr().String(), query.Encode()
	c := &collector{address: server.String(), sent: map[string][]sent{}}
	var busy sync.WaitGroup
	busy.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			busy.Go(func() { c.serve(client, network, at) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		busy.Wait()
	})
	return c
}

// serve forwards data between a client and the server until one of them ends.
func (c *collector) serve(client net.Conn, network, at string) {
	defer client.Close()
	server, err := net.Dial(network, at)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		c.answer(client, server)
		_ = client.Close()
	}()
	_ = c.listen(bufio.NewReader(io.TeeReader(client, server)))
}

// answer forwards the server's responses.
func (c *collector) answer(client io.Writer, server io.Reader) {
	most := c.most.Load()
	if most == 0 {
		_, _ = io.Copy(client, server)
		return
	}
	if n, _ := io.CopyN(client, server, most); n == most {
		c.lost.Add(1)
	}
}

var errCut = errors.New("the connection is cut")

// listen reads the client's messages. The first message has no type.
func (c *collector) listen(r *bufio.Reader) error {
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
			c.add(texts[string(name)], parameters(rest))
		case 'Q':
			command := strings.TrimSuffix(string(body), "\x00")
			if cuts := c.cuts.Load(); cuts != nil && (*cuts)(command) {
				return errCut
			}
			c.add(command, nil)
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

func (c *collector) add(text string, parameters sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if all := c.sent[text]; len(all) < maxSent {
		c.sent[text] = append(all, parameters)
	}
}
