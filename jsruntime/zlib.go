package jsruntime

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
)

// maxInflated bounds what the compressed bytes of one stream may unfold to.
const maxInflated = 32 << 20

// Kinds of flush, as Node numbers them.
const (
	flushNone   = 0
	flushFinish = 4
)

// zlibNatives compress and decompress in pieces. The states stay in Go; the
// code holds their numbers.
var zlibNatives = map[string]native{
	"zlib.new":   (*execution).zlibNew,
	"zlib.write": (*execution).zlibWrite,
	"zlib.close": (*execution).zlibClose,
}

// zlibState is a stream in use. It takes bytes and returns what they come to.
type zlibState interface {
	write(b []byte, flush int) (out []byte, err error)
	// used tells how many bytes were taken, and ended whether no more will be.
	used() int
	ended() bool
	left() int // bytes of the last write, after the end
	close()
}

// zlibNew takes the mode, the level and the dictionary.
func (c *execution) zlibNew(args []goja.Value) goja.Value {
	mode, level := arg(args, 0).String(), int(arg(args, 1).ToInteger())
	var dictionary []byte
	if v := arg(args, 2); !goja.IsUndefined(v) {
		dictionary = bytes.Clone(c.bytesOf(v))
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
	return c.vm.ToValue(c.lastZlib)
}

// zlibWrite takes number, bytes, kind of flush, and how much may come out. It
// returns what came out, whether the stream has ended, how many bytes it has
// taken in all, and how many of these it left.
func (c *execution) zlibWrite(args []goja.Value) goja.Value {
	s, ok := c.zlibs[int(arg(args, 0).ToInteger())]
	if !ok {
		panic(c.newError("Error", "ERR_INTERNAL", "zlib binding closed"))
	}
	out, err := s.write(c.bytesOf(arg(args, 1)), int(arg(args, 2).ToInteger()))
	if err != nil {
		panic(c.zlibError(err))
	}
	return c.vm.NewArray(c.buffer(out), s.ended(), s.used(), s.left())
}

func (c *execution) zlibClose(args []goja.Value) goja.Value {
	id := int(arg(args, 0).ToInteger())
	if s, ok := c.zlibs[id]; ok {
		s.close()
		delete(c.zlibs, id)
	}
	return goja.Undefined()
}

// closeStreams ends what a run has left open.
func (c *execution) closeStreams() {
	for _, s := range c.zlibs {
		s.close()
	}
}

// zlibFailures are the errors with Node's words for them.
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

func (c *execution) zlibError(err error) *goja.Object {
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
	o := c.newError(class, code, text)
	if errno != 0 {
		c.set(o, "errno", errno)
	}
	return o
}

// deflater compresses.
type deflater struct {
	out   bytes.Buffer
	w     io.WriteCloser
	taken int
	over  bool
}

func newDeflater(mode string, level int, dictionary []byte) *deflater {
	d := &deflater{}
	switch mode {
	case "gzip":
		w, _ := gzip.NewWriterLevel(&d.out, level)
		w.OS = 3 // Unix, as Node says on Linux
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

func (d *deflater) used() int   { return d.taken }
func (d *deflater) ended() bool { return d.over }
func (d *deflater) left() int   { return 0 }
func (d *deflater) close()      {}

// inflater decompresses. Go's readers pull their input, while the code pushes
// it: the reader runs as a coroutine that yields when it needs more.
type inflater struct {
	next   func() (struct{}, bool)
	stop   func()
	in     []byte
	out    []byte
	total  int
	taken  int
	rest   int
	over   bool // the stream has ended, but another may follow it
	done   bool // nothing more is read
	eof    bool // nothing more is written
	err    error
	closed bool
}

var errMoreInput = errors.New("stopped")

func newInflater(mode string, dictionary []byte) *inflater {
	f := &inflater{}
	f.next, f.stop = iter.Pull(func(yield func(struct{}) bool) {
		src := &pushed{f, yield}
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

func (f *inflater) used() int   { return f.taken }
func (f *inflater) ended() bool { return f.over }
func (f *inflater) left() int   { return f.rest }

func (f *inflater) close() {
	if !f.closed {
		f.closed = true
		f.stop()
	}
}

// pushed is the input of a reader: what was written, byte by byte, so that no
// reader takes more than it needs.
type pushed struct {
	f     *inflater
	yield func(struct{}) bool
}

// wait returns when there is input, or an error when there will be none.
func (p *pushed) wait() error {
	for len(p.f.in) == 0 {
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
	b := p.f.in[0]
	p.f.in = p.f.in[1:]
	p.f.taken++
	return b, nil
}

// Read implements io.Reader.
func (p *pushed) Read(b []byte) (int, error) {
	if err := p.wait(); err != nil {
		return 0, err
	}
	n := copy(b, p.f.in)
	p.f.in = p.f.in[n:]
	p.f.taken += n
	return n, nil
}

// inflate reads a whole stream.
func (f *inflater) inflate(src *pushed, mode string, dictionary []byte) error {
	switch mode {
	case "unzip":
		return f.unzip(src, dictionary)
	case "gunzip":
		return f.gunzip(&lookahead{pushed: src})
	case "inflate":
		return f.inflateZlib(src, dictionary)
	case "unbrotli":
		return f.unbrotli(src)
	}
	return f.copy(flate.NewReaderDict(src, dictionary))
}

// unbrotli reads ahead of what it needs, which does no harm: nothing may
// follow a Brotli stream.
func (f *inflater) unbrotli(src *pushed) error {
	err := f.copy(brotli.NewReader(src))
	if err != nil && !errors.Is(err, errInflated) && !errors.Is(err, errMoreInput) {
		return errBrotli
	}
	return err
}

// unzip tells gzip and zlib apart by their first bytes.
func (f *inflater) unzip(src *pushed, dictionary []byte) error {
	first, err := src.ReadByte()
	if err != nil {
		return err
	}
	ahead := &lookahead{pushed: src, held: []byte{first}}
	if first == 0x1f {
		return f.gunzip(ahead)
	}
	return f.inflateZlib(ahead, dictionary)
}

func (f *inflater) inflateZlib(src byteReader, dictionary []byte) error {
	head := make([]byte, 2)
	if _, err := io.ReadFull(src, head); err != nil {
		return err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 && head[1]&0x20 != 0 && dictionary == nil {
		return zlib.ErrDictionary
	}
	if head[0]&0x0f != 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return errMethod
	}
	r, err := zlib.NewReaderDict(&lookahead{pushed: pushedOf(src), held: append(head, heldOf(src)...)}, dictionary)
	if errors.Is(err, zlib.ErrDictionary) && dictionary != nil {
		return errDictionary
	}
	if err != nil {
		return err
	}
	return f.copy(r)
}

// byteReader is what Go's readers need to take no more than they use.
type byteReader interface {
	io.Reader
	io.ByteReader
}

func pushedOf(src byteReader) *pushed {
	if l, ok := src.(*lookahead); ok {
		return l.pushed
	}
	return src.(*pushed)
}

func heldOf(src byteReader) []byte {
	if l, ok := src.(*lookahead); ok {
		return l.held
	}
	return nil
}

// lookahead is input of which some bytes were read already.
type lookahead struct {
	*pushed
	held []byte
}

// ReadByte implements io.ByteReader.
func (l *lookahead) ReadByte() (byte, error) {
	if len(l.held) > 0 {
		b := l.held[0]
		l.held = l.held[1:]
		return b, nil
	}
	return l.pushed.ReadByte()
}

// Read implements io.Reader.
func (l *lookahead) Read(b []byte) (int, error) {
	if len(l.held) > 0 {
		n := copy(b, l.held)
		l.held = l.held[n:]
		return n, nil
	}
	return l.pushed.Read(b)
}

// gunzip reads one member after the other. What follows them and is none is
// ignored, as in Node.
func (f *inflater) gunzip(src *lookahead) error {
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
		if src.wait() != nil || f.in[0] != 0x1f || len(f.in) > 1 && f.in[1] != 0x8b {
			return nil
		}
		f.over = false
		if err = src.checkHeader(); err == nil {
			err = r.Reset(src)
		}
	}
	return err
}

// checkHeader says what is wrong with the first bytes of a member.
func (l *lookahead) checkHeader() error {
	head := make([]byte, 3)
	if _, err := io.ReadFull(l, head); err != nil {
		return err
	}
	l.held = append(head, l.held...)
	switch {
	case head[0] != 0x1f || head[1] != 0x8b:
		return gzip.ErrHeader
	case head[2] != 8:
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
