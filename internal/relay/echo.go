package relay

import (
	"bufio"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/fault"
)

// Echo removes from a response the data of tokens that the request sent, if its
// caller may not see it. The data is replaced by the expression for the token.
type Echo struct{ filter *filter }

// Clean cleans the headers and the body of a response. The body is decompressed,
// and stays a stream. A response that cannot be searched is an error, and its
// body is closed. A nil Echo leaves the response as it is.
func (e *Echo) Clean(res *http.Response) error {
	if e == nil {
		return nil
	}
	body, err := searchable(res)
	if err != nil {
		res.Body.Close()
		return err
	}
	res.Header = e.header(res.Header)
	res.Header.Del("Content-Encoding")
	res.Header.Del("Content-Length")
	res.ContentLength, res.Trailer = -1, nil
	res.Status = strconv.Itoa(res.StatusCode) + " " + http.StatusText(res.StatusCode) // not the destination's text
	res.Body = &cleanBody{e.filter.Reader(body), res.Body}
	return nil
}

type cleanBody struct {
	io.Reader
	io.Closer
}

// searchable returns the plain body of a response, if it can be searched.
func searchable(res *http.Response) (io.Reader, error) {
	switch {
	case res.StatusCode < 200:
		return nil, unsearchable("switches to another protocol")
	case res.StatusCode == http.StatusPartialContent:
		return nil, unsearchable("is only a part of a document")
	case !isUTF8(res.Header):
		return nil, unsearchable("has a charset other than UTF-8")
	}
	encodings, err := encodingsOf(res.Header)
	switch {
	case err != nil:
		return nil, unsearchable(err.Error())
	case len(encodings) == 0:
		return res.Body, nil
	}
	raw := bufio.NewReader(res.Body)
	if _, err := raw.Peek(1); err == io.EOF {
		return raw, nil
	}
	var plain io.Reader = raw
	for _, name := range encodings {
		if plain, err = decompressor(name, plain); err != nil {
			return nil, compressed(err)
		}
	}
	start := bufio.NewReader(plain)
	if _, err := start.Peek(1); err != nil && err != io.EOF {
		return nil, compressed(err)
	}
	return &plainBody{start}, nil
}

// unsearchable returns the error for a response that cannot be searched for
// data.
func unsearchable(why string) error {
	return fault.New(fault.ErrUnreachable, "the destination's response cannot be searched for the data that was sent: it %s", why)
}

// compressed returns the error of a decompressor. Errors of the connection pass.
func compressed(err error) error {
	switch {
	case errors.Is(err, errEncoding):
		return unsearchable(errEncoding.Error())
	case errors.Is(err, fault.ErrUnreachable), errors.Is(err, fault.ErrTimeout):
		return err
	default:
		return unsearchable(errCompressed.Error())
	}
}

// plainBody is a body that was compressed.
type plainBody struct{ io.Reader }

func (d *plainBody) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = compressed(err)
	}
	return n, err
}

// isUTF8 reports whether the headers name no other charset.
func isUTF8(header http.Header) bool {
	for _, line := range header["Content-Type"] {
		_, params, err := mime.ParseMediaType(line)
		charset, given := params["charset"]
		if err != nil && strings.Contains(strings.ToLower(line), "charset") || given && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
			return false
		}
	}
	return true
}
