package node

import (
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"iter"

	"github.com/andybalholm/brotli"
)

// inflater decompresses. Go's readers pull their input, but the code pushes it.
// So the reader runs as a coroutine that yields when it needs more.
type inflater struct {
	zlibStatus // over if the stream has ended, but another may follow
	next       func() (struct{}, bool)
	stop       func()
	in         []byte
	out        []byte
	total      int
	done       bool // nothing more is read
	eof        bool // nothing more is written
	err        error
	closed     bool
}

var errMoreInput = errors.New("stopped")

func newInflater(mode string, dictionary []byte) *inflater {
	f := &inflater{}
	f.next, f.stop = iter.Pull(func(yield func(struct{}) bool) {
		src := &pushed{f: f, yield: yield}
		f.err = f.inflate(src, mode, dictionary)
		if errors.Is(f.err, io.EOF) {
			f.err = io.ErrUnexpectedEOF
		}
		f.over, f.done = true, true
	})
	return f
}

func (f *inflater) write(b []byte, flush int) ([]byte, error) {
	f.in, f.eof = b, flush == flushFinish
	if !f.done && !f.closed {
		f.next()
	}
	f.in, f.rest = nil, len(f.in)
	out := f.out
	f.out = nil
	if f.err != nil {
		return nil, f.err
	}
	if flush == flushFinish && !f.over {
		return nil, io.ErrUnexpectedEOF
	}
	return out, nil
}

func (f *inflater) close() {
	if !f.closed {
		f.closed = true
		f.stop()
	}
}

// pushed is the input of a reader: the written bytes, one by one, so that no
// reader takes more than it needs.
type pushed struct {
	f     *inflater
	yield func(struct{}) bool
	held  []byte // was read to look ahead, and is read again
}

// wait returns when there is input, or an error if there will be none.
func (p *pushed) wait() error {
	for len(p.held) == 0 && len(p.f.in) == 0 {
		if p.f.eof {
			return io.EOF
		}
		if p.f.closed || !p.yield(struct{}{}) {
			return errMoreInput
		}
	}
	return nil
}

// ReadByte implements io.ByteReader.
func (p *pushed) ReadByte() (byte, error) {
	if err := p.wait(); err != nil {
		return 0, err
	}
	from := &p.held
	if len(p.held) == 0 {
		from = &p.f.in
		p.f.taken++
	}
	b := (*from)[0]
	*from = (*from)[1:]
	return b, nil
}

// Read implements io.Reader.
func (p *pushed) Read(b []byte) (int, error) {
	if err := p.wait(); err != nil {
		return 0, err
	}
	if n := copy(b, p.held); n > 0 {
		p.held = p.held[n:]
		return n, nil
	}
	n := copy(b, p.f.in)
	p.f.in = p.f.in[n:]
	p.f.taken += n
	return n, nil
}

// peek returns the next n bytes.
func (p *pushed) peek(n int) ([]byte, error) {
	head := make([]byte, n)
	read, err := io.ReadFull(p, head)
	p.held = append(head[:read:read], p.held...)
	return head, err
}

// inflate reads a whole stream.
func (f *inflater) inflate(src *pushed, mode string, dictionary []byte) error {
	switch mode {
	case "unzip": // gzip or zlib
		head, err := src.peek(1)
		switch {
		case err != nil:
			return err
		case head[0] == gzipID[0]:
			return f.gunzip(src)
		}
		return f.inflateZlib(src, dictionary)
	case "gunzip":
		return f.gunzip(src)
	case "inflate":
		return f.inflateZlib(src, dictionary)
	case "unbrotli":
		return f.unbrotli(src)
	}
	return f.copy(flate.NewReaderDict(src, dictionary))
}

// unbrotli reads ahead of what it needs. That does no harm, because nothing may
// follow a Brotli stream.
func (f *inflater) unbrotli(src *pushed) error {
	err := f.copy(brotli.NewReader(src))
	if err != nil && !errors.Is(err, errInflated) && !errors.Is(err, errMoreInput) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return errBrotli
	}
	return err
}

func (f *inflater) inflateZlib(src *pushed, dictionary []byte) error {
	head, err := src.peek(2)
	if err != nil {
		return err
	}
	if valid := (int(head[0])<<8|int(head[1]))%31 == 0; valid {
		switch {
		case head[0]&0x0f != deflated:
			return errMethod
		case head[1]&0x20 != 0 && dictionary == nil:
			return zlib.ErrDictionary
		}
	}
	r, err := zlib.NewReaderDict(src, dictionary)
	if errors.Is(err, zlib.ErrDictionary) && dictionary != nil {
		return errDictionary
	}
	if err != nil {
		return err
	}
	return f.copy(r)
}

// deflated is the only compression method. gzipID are the first bytes of gzip.
const deflated = 8

var gzipID = [2]byte{0x1f, 0x8b}

// gunzip reads one member after the other. It ignores other data after them, as
// Node does.
func (f *inflater) gunzip(src *pushed) error {
	if err := src.checkHeader(); err != nil {
		return err
	}
	r, err := gzip.NewReader(src)
	for err == nil {
		r.Multistream(false)
		if err = f.copy(r); err != nil {
			return err
		}
		f.over = true
		if src.wait() != nil || f.in[0] != gzipID[0] || len(f.in) > 1 && f.in[1] != gzipID[1] {
			return nil //nolint:nilerr // data after the end is not an error
		}
		f.over = false
		if err = src.checkHeader(); err == nil {
			err = r.Reset(src)
		}
	}
	return err
}

// checkHeader returns what is wrong with the first bytes of a member.
func (p *pushed) checkHeader() error {
	head, err := p.peek(3)
	switch {
	case err != nil:
		return err
	case [2]byte(head) != gzipID:
		return gzip.ErrHeader
	case head[2] != deflated:
		return errMethod
	}
	return nil
}

// copy reads to the end of a stream.
func (f *inflater) copy(r io.Reader) error {
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		f.out = append(f.out, buf[:n]...)
		if f.total += n; f.total > maxInflated {
			return errInflated
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
