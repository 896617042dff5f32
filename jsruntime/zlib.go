package jsruntime

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"

	"github.com/dop251/goja"
)

// maxInflated bounds what compressed bytes may unfold to.
const maxInflated = 32 << 20

var zlibNatives = map[string]native{
	"zlib.deflate": (*execution).deflate,
	"zlib.inflate": (*execution).inflate,
}

// deflate takes bytes, the format (gzip, zlib, raw) and the level.
func (c *execution) deflate(args []goja.Value) goja.Value {
	level := int(arg(args, 2).ToInteger())
	if level < -1 || level > 9 {
		panic(c.newError("RangeError", "ERR_OUT_OF_RANGE", `The value of "options.level" is out of range`))
	}
	var out bytes.Buffer
	var w io.WriteCloser
	switch arg(args, 1).String() {
	case "gzip":
		w, _ = gzip.NewWriterLevel(&out, level)
	case "zlib":
		w, _ = zlib.NewWriterLevel(&out, level)
	default:
		w, _ = flate.NewWriter(&out, level)
	}
	_, err := w.Write(c.bytesOf(arg(args, 0)))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(c.newError("Error", "Z_STREAM_ERROR", "stream error"))
	}
	return c.buffer(out.Bytes())
}

// inflate takes bytes and the format; auto tells gzip and zlib apart.
func (c *execution) inflate(args []goja.Value) goja.Value {
	data, format := c.bytesOf(arg(args, 0)), arg(args, 1).String()
	if format == "auto" {
		format = "zlib"
		if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
			format = "gzip"
		}
	}
	var r io.Reader
	var err error
	switch format {
	case "gzip":
		r, err = gzip.NewReader(bytes.NewReader(data))
	case "zlib":
		r, err = zlib.NewReader(bytes.NewReader(data))
	default:
		r = flate.NewReader(bytes.NewReader(data))
	}
	if err != nil {
		panic(c.newError("Error", "Z_DATA_ERROR", "incorrect header check"))
	}
	limit := int64(maxInflated)
	if v := arg(args, 2); !goja.IsUndefined(v) {
		limit = min(limit, v.ToInteger())
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case int64(len(out)) > limit:
		panic(c.newError("RangeError", "ERR_BUFFER_TOO_LARGE", "Cannot create a Buffer larger than the limit"))
	case errors.Is(err, io.ErrUnexpectedEOF):
		panic(c.newError("Error", "Z_BUF_ERROR", "unexpected end of file"))
	case err != nil:
		panic(c.newError("Error", "Z_DATA_ERROR", "invalid stored block lengths"))
	}
	return c.buffer(out)
}
