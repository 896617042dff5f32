package workers

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/node"
)

// The kinds of messages between the embedding process and a worker.
const (
	kindHello  = 'h' // worker: ready; parts protocol, why system calls are not filtered
	kindRun    = 'r' // parent: a job, id is its flags; parts limits, hash, input, and source unless it was sent before
	kindStop   = 's' // parent: stop the run with this number, counted from 1
	kindReply  = 'a' // parent: reply to call id; part 0 the result
	kindRefuse = 'e' // parent: error of call id; part 0 the error
	kindCall   = 'c' // worker: call id; parts operation, arguments
	kindLog    = 'l' // worker: parts level, line
	kindDone   = 'd' // worker: parts result, units that were used; id is 1 if the worker is used up
	kindFailed = 'f' // worker: parts error, units that were used; id as for kindDone
	kindCrash  = 'p' // worker: a panic of the engine; parts text, stack
	kindAsk    = 'q' // worker: question id of the run; parts question, arguments
	kindTell   = 't' // parent: reply to question id; parts error or nothing, then the reply
	kindUnit   = 'u' // parent: a unit that is likely to be needed; parts name, text, names in it
)

// The flags of a job.
const (
	flagCheck    = 1 << iota // only load the code
	flagPackages             // there are packages
)

// protocol distinguishes builds of this package, in case WorkerPath names an
// older binary.
const protocol = "vault-jsruntime-5"

// maxFrame limits a message. Results and inputs have tighter limits.
const maxFrame = 64 << 20

var errFrame = errors.New("malformed message")

// frame is a message. On the wire it has a length, kind, id, and parts, each
// preceded by its length.
type frame struct {
	kind  byte
	id    uint32
	parts [][]byte
}

// part returns a part, or nil.
func (f frame) part(i int) []byte {
	if i < len(f.parts) {
		return f.parts[i]
	}
	return nil
}

// link carries frames. Several goroutines may send frames, and one reads them.
type link struct {
	rw  io.ReadWriteCloser
	in  *bufio.Reader
	mu  sync.Mutex
	out []byte
}

func newLink(rw io.ReadWriteCloser) *link {
	return &link{rw: rw, in: bufio.NewReaderSize(rw, 16<<10)}
}

// send writes a frame in one write.
func (l *link) send(kind byte, id uint32, parts ...[]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := 5
	for _, p := range parts {
		size += 4 + len(p)
	}
	if size > maxFrame {
		return errFrame
	}
	b := binary.BigEndian.AppendUint32(l.out[:0], uint32(size))
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, id)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	l.out = nil
	if cap(b) <= 256<<10 {
		l.out = b
	}
	_, err := l.rw.Write(b)
	clear(b) // it may have contained a card number
	return err
}

// receive reads the next frame.
func (l *link) receive() (frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(l.in, head[:]); err != nil {
		return frame{}, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 5 || size > maxFrame {
		return frame{}, errFrame
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(l.in, body); err != nil {
		return frame{}, err
	}
	f := frame{kind: body[0], id: binary.BigEndian.Uint32(body[1:5])}
	for rest := body[5:]; len(rest) > 0; {
		if len(rest) < 4 {
			return frame{}, errFrame
		}
		n := binary.BigEndian.Uint32(rest)
		if uint64(len(rest)-4) < uint64(n) {
			return frame{}, errFrame
		}
		f.parts = append(f.parts, rest[4:4+n])
		rest = rest[4+n:]
	}
	return f, nil
}

// encodeLimits encodes limits for the wire.
func encodeLimits(l node.Limits) []byte {
	b := make([]byte, 0, 32)
	for _, n := range []int{int(l.Timeout), l.MaxSource, l.MaxOutput, l.MaxLog} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// decodeLimits decodes the result of encodeLimits.
func decodeLimits(b []byte) (l node.Limits, ok bool) {
	if len(b) != 32 {
		return l, false
	}
	at := func(i int) int { return int(binary.BigEndian.Uint64(b[8*i:])) }
	return node.Limits{Timeout: time.Duration(at(0)), MaxSource: at(1), MaxOutput: at(2), MaxLog: at(3)}, true
}
