package core

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
)

// StoredResponse is a response with its dependencies.
type StoredResponse struct {
	Status int
	Header http.Header
	Body   []byte

	Depends
}

// Encode encodes the length of the dependencies, the dependencies, and the
// response. The length is zero if there are no dependencies.
func (a *StoredResponse) Encode() ([]byte, error) {
	if len(a.Uses) == 0 && len(a.Named) == 0 && !a.TooMany {
		return append([]byte{0}, a.encodeResponse()...), nil
	}
	text, err := json.Marshal(&a.Depends)
	if err != nil {
		return nil, err
	}
	out := append(binary.AppendUvarint(nil, uint64(len(text))), text...)
	return append(out, a.encodeResponse()...), nil
}

// Decode decodes the output of Encode.
func (a *StoredResponse) Decode(src []byte) error {
	n, width := binary.Uvarint(src)
	if width <= 0 || n > uint64(len(src)-width) {
		return errFormat
	}
	text, rest := src[width:width+int(n)], src[width+int(n):]
	if n > 0 {
		if err := json.Unmarshal(text, &a.Depends); err != nil {
			return errFormat
		}
	}
	return a.decodeResponse(rest)
}

// responseVersion is the first byte of an encoded response.
const responseVersion = 1

// encodeResponse encodes the response: a version, the status, the headers
// sorted by name, and the body. Each text follows its length. The length of a
// body is increased by one, so that zero means no body.
func (a *StoredResponse) encodeResponse() []byte {
	dst := make([]byte, 0, len(a.Body)+256)
	dst = binary.AppendVarint(append(dst, responseVersion), int64(a.Status))
	values := 0
	for _, all := range a.Header {
		values += len(all)
	}
	dst = binary.AppendUvarint(dst, uint64(values))
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		for _, value := range a.Header[name] {
			dst = appendField(appendField(dst, name), value)
		}
	}
	if a.Body == nil {
		return binary.AppendUvarint(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(a.Body))+1), a.Body...)
}

func appendField(dst []byte, field string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(field))), field...)
}

var errFormat = errors.New("vault: a stored answer has a format that this version does not know")

// decodeResponse decodes the output of encodeResponse.
func (a *StoredResponse) decodeResponse(src []byte) error {
	if len(src) == 0 || src[0] != responseVersion {
		return errFormat
	}
	status, width := binary.Varint(src[1:])
	if width <= 0 {
		return errFormat
	}
	r := fieldsReader{rest: src[1+width:]}
	a.Status = int(status)
	headers := r.number()
	for i := uint64(0); i < headers && !r.bad; i++ {
		if a.Header == nil {
			a.Header = http.Header{}
		}
		name := string(r.next(r.number()))
		a.Header[name] = append(a.Header[name], string(r.next(r.number())))
	}
	if n := r.number(); n > 0 {
		a.Body = r.next(n - 1)
	}
	if r.bad || len(r.rest) > 0 {
		return errFormat
	}
	return nil
}

// fieldsReader reads lengths and the texts after them.
type fieldsReader struct {
	rest []byte
	bad  bool // the input is too short
}

func (r *fieldsReader) number() uint64 {
	n, width := binary.Uvarint(r.rest)
	if width <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[width:]
	return n
}

func (r *fieldsReader) next(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	field := r.rest[:n:n]
	r.rest = r.rest[n:]
	return field
}
