package relay

import (
	"bufio"
	"bytes"
	"mime"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// Limits on a multipart body with expressions.
const (
	maxParts    = 1000
	maxBoundary = 70 // bytes, from RFC 2046
)

// scanParts finds expressions in each part of a multipart body, by the type
// of the part. Headers of parts, encoded parts and nested multipart bodies
// stay unchanged.
func (b *Body) scanParts() *form.Problems {
	if b.boundary == "" || len(b.boundary) > maxBoundary {
		return form.Problem("", "must name a boundary of 1 to %d characters in the Content-Type", maxBoundary)
	}
	at, ok := b.delimiter(0)
	for range maxParts {
		if !ok {
			return form.Problem("", "is not multipart although the Content-Type says so, or was cut off")
		}
		if at.last {
			return nil
		}
		next, found := b.delimiter(at.next)
		if found {
			if bad := b.scanPart(at.next, next.start); bad != nil {
				return bad
			}
		}
		at, ok = next, found
	}
	return form.Problem("", "must have at most %d parts", maxParts-1)
}

// delimiter is a line between parts.
type delimiter struct {
	start int // start of the line break before it, which belongs to it
	next  int // start of the next part
	last  bool
}

// delimiter finds the next delimiter.
func (b *Body) delimiter(from int) (delimiter, bool) {
	mark := []byte("--" + b.boundary)
	for i := from; ; {
		found := bytes.Index(b.raw[i:], mark)
		if found < 0 {
			return delimiter{}, false
		}
		i += found
		at := i
		i += len(mark)
		if at > 0 && b.raw[at-1] != '\n' {
			continue // check this first, because the rest of the line may contain many of these
		}
		rest := b.raw[i:]
		after := bytes.TrimLeft(rest, " \t")
		line, _, broken := bytes.Cut(after, []byte("\n"))
		last := bytes.HasPrefix(rest, []byte("--"))
		if last || broken && len(bytes.TrimSuffix(line, []byte("\r"))) == 0 {
			start := len(bytes.TrimSuffix(bytes.TrimSuffix(b.raw[from:at], []byte("\n")), []byte("\r"))) + from
			return delimiter{start: start, next: len(b.raw) - len(after) + len(line) + len("\n"), last: last}, true
		}
	}
}

// scanPart scans one part, which starts with its headers.
func (b *Body) scanPart(start, end int) *form.Problems {
	part := b.raw[start:max(start, end)]
	header, body, ok := cutHeader(part)
	if !ok {
		return form.Problem("", "has a part whose headers cannot be read")
	}
	from := start + len(part) - len(body)
	var name string
	if _, params, err := mime.ParseMediaType(header.Get("Content-Disposition")); err == nil {
		name = jsonx.JoinName("", params["name"])
	}
	if slices.ContainsFunc(header["Content-Transfer-Encoding"], func(encoding string) bool {
		return !slices.Contains([]string{"", "7bit", "8bit", "binary"}, strings.ToLower(encoding))
	}) {
		return nil
	}
	format, _ := FormatOf(header)
	spots := len(b.spots)
	bad := b.scan(format, from, start+len(part), name)
	b.foreign = b.foreign || len(b.spots) > spots && !keepsText(header, body)
	return bad
}

// cutHeader separates the headers from the body.
func cutHeader(part []byte) (http.Header, []byte, bool) {
	for _, empty := range []string{"\r\n", "\n"} {
		if body, ok := bytes.CutPrefix(part, []byte(empty)); ok {
			return nil, body, true
		}
		head, body, ok := bytes.Cut(part, []byte(empty+empty))
		if !ok {
			continue
		}
		text := string(head) + "\r\n\r\n"
		header, err := textproto.NewReader(bufio.NewReader(strings.NewReader(text))).ReadMIMEHeader()
		return http.Header(header), body, err == nil
	}
	return nil, nil, false
}
