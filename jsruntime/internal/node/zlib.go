package node

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"iter"

	"github.com/andybalholm/brotli"
	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// maxInflated limits the decompressed size of one stream.
const maxInflated = 32 << 20

// Kinds of flush, by Node's numbers.
const (
	flushNone   = 0
	flushFinish = 4
)

// zlibNatives compress and decompress in pieces. The states stay in Go; the
// code holds their numbers.
var zlibNatives = map[string]nativeFunc{
	"zlib.new":   (*Execution).zlibNew,
	"zlib.write": (*Execution).zlibWrite,
	"zlib.close": (*Execution).zlibClose,
}

// zlibState is a stream in use. It takes bytes and returns output.
type zlibState interface {
	write(b []byte, flush int) (out []byte, err error)
	status() *zlibStatus
	close()
}

// zlibStatus is how far a stream has come.
type zlibStatus struct {
	taken int  // bytes in total
	over  bool // no more will be taken
	rest  int  // bytes of the last write, after the end
}

func (s *zlibStatus) status() *zlibStatus { return s }

// zlibNew takes the mode, the level and the dictionary.
func (c *Execution) zlibNew(args []goja.Value) goja.Value {
	mode, level := native.Arg(args, 0).String(), int(native.Arg(args, 1).ToInteger())
	var dictionary []byte
	if v := native.Arg(args, 2); !goja.IsUndefined(v) {
		dictionary = bytes.Clone(c.BytesOf(v))
	}
	var s zlibState
	switch mode {
	case "gzip", "zlib", "raw", "brotli":
		s = newDeflater(mode, level, dictionary)
	default:
		s = newInflater(mode, dictionary)
	}
	if c.zlibs == nil {
		c.zlibs = map[int]zlibState{}
	}
	c.lastZlib++
	c.zlibs[c.lastZlib] = s
	return c.VM.ToValue(c.lastZlib)
}

// zlibWrite takes number, bytes, kind of flush, and the limit of the output. It
// returns the output, whether the stream has ended, how many bytes it has taken
// in total, and how many of these it left.
func (c *Execution) zlibWrite(args []goja.Value) goja.Value {
	s, ok := c.zlibs[int(native.Arg(args, 0).ToInteger())]
	c.Check(ok, "Error", "ERR_INTERNAL", "zlib binding closed")
	out, err := s.write(c.BytesOf(native.Arg(args, 1)), int(native.Arg(args, 2).ToInteger()))
	if err != nil {
		panic(c.zlibError(err))
	}
	status := s.status()
	return c.VM.NewArray(c.Buffer(out), status.over, status.taken, status.rest)
}

func (c *Execution) zlibClose(args []goja.Value) goja.Value {
	id := int(native.Arg(args, 0).ToInteger())
	if s, ok := c.zlibs[id]; ok {
		s.close()
		delete(c.zlibs, id)
	}
	return goja.Undefined()
}

// closeStreams closes the streams that a run has left open.
func (c *Execution) closeStreams() {
	for _, s := range c.zlibs {
		s.close()
	}
}

// zlibFailures are the errors with Node's messages.
var zlibFailures = []struct {
	err   error
	code  string
	errno int
	text  string
}{
	{errInflated, "ERR_BUFFER_TOO_LARGE", 0, "Cannot create a Buffer larger than 33554432 bytes"},
	{io.ErrUnexpectedEOF, "Z_BUF_ERROR", -5, "unexpected end of file"},
	{zlib.ErrDictionary, "Z_NEED_DICT", 2, "Missing dictionary"},
	{errDictionary, "Z_DATA_ERROR", -3, "Bad dictionary"},
	{zlib.ErrHeader, "Z_DATA_ERROR", -3, "incorrect header check"},
	{gzip.ErrHeader, "Z_DATA_ERROR", -3, "incorrect header check"},
	{zlib.ErrChecksum, "Z_DATA_ERROR", -3, "incorrect data check"},
	{gzip.ErrChecksum, "Z_DATA_ERROR", -3, "incorrect data check"},
	{errMethod, "Z_DATA_ERROR", -3, "unknown compression method"},
	{errBrotli, "ERR__ERROR_FORMAT_PADDING_1", -2, "Decompression failed"},
}

var (
	errInflated   = errors.New("the data unfolds to too much")
	errDictionary = errors.New("bad dictionary")
	errMethod     = errors.New("unknown compression method")
	errBrotli     = errors.New("brotli")
)

func (c *Execution) zlibError(err error) *goja.Object {
	code, errno, text := "Z_DATA_ERROR", -3, "invalid distance too far back"
	for _, f := range zlibFailures {
		if errors.Is(err, f.err) {
			code, errno, text = f.code, f.errno, f.text
		}
	}
	class := "Error"
	if errors.Is(err, errInflated) {
		class = "RangeError"
	}
	o := c.NewError(class, code, text)
	if errno != 0 {
		c.Set(o, "errno", errno)
	}
	return o
}

// deflater compresses.
type deflater struct {
	zlibStatus
	out bytes.Buffer
	w   io.WriteCloser
}

func newDeflater(mode string, level int, dictionary []byte) *deflater {
	d := &deflater{}
	switch mode {
	case "gzip":
		w, _ := gzip.NewWriterLevel(&d.out, level)
		w.OS = 3 // Unix, as Node writes on Linux
		d.w = w
	case "zlib":
		d.w, _ = zlib.NewWriterLevelDict(&d.out, level, dictionary)
	case "brotli":
		d.w = brotli.NewWriterLevel(&d.out, level)
	default:
		d.w, _ = flate.NewWriterDict(&d.out, level, dictionary)
	}
	return d
}

func (d *deflater) write(b []byte, flush int) ([]byte, error) {
	if d.over {
		return nil, nil
	}
	d.taken += len(b)
	_, err := d.w.Write(b)
	switch {
	case err != nil:
	case flush == flushFinish:
		d.over = true
		err = d.w.Close()
	case flush != flushNone:
		err = d.w.(interface{ Flush() error }).Flush()
	}
	out := bytes.Clone(d.out.Bytes())
	d.out.Reset()
	return out, err
}

func (d *deflater) close() {}

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
