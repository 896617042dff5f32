package node

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"

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
