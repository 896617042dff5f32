package vault

import (
	"encoding/binary"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/form"
)

// Answer is what a request gave, kept for whoever asks again.
type Answer struct {
	Status int
	Header map[string]string
	Body   []byte
}

// answerVersion is the first byte of an encoded answer.
const answerVersion = 1

// encode writes the answer: a version, the status, the headers in the order of
// their names, and the body, each text after its length. The length of a body
// has one added, so that zero says that there is none.
func (a *Answer) encode() []byte {
	dst := make([]byte, 0, len(a.Body)+256)
	dst = binary.AppendVarint(append(dst, answerVersion), int64(a.Status))
	dst = binary.AppendUvarint(dst, uint64(len(a.Header)))
	for _, name := range form.SortedKeys(a.Header, nil) {
		dst = endField(len(dst), append(dst, name...))
		dst = endField(len(dst), append(dst, a.Header[name]...))
	}
	if a.Body == nil {
		return binary.AppendUvarint(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(a.Body))+1), a.Body...)
}

var errAnswer = errors.New("vault: a stored answer is not what this version writes")

// decode reads what encode wrote.
func (a *Answer) decode(src []byte) error {
	if len(src) == 0 || src[0] != answerVersion {
		return errAnswer
	}
	status, width := binary.Varint(src[1:])
	if width <= 0 {
		return errAnswer
	}
	r := fieldsReader{rest: src[1+width:]}
	a.Status = int(status)
	headers := r.number()
	for i := uint64(0); i < headers && !r.bad; i++ {
		if a.Header == nil {
			a.Header = map[string]string{}
		}
		name := string(r.next(r.number()))
		a.Header[name] = string(r.next(r.number()))
	}
	if n := r.number(); n > 0 {
		a.Body = r.next(n - 1)
	}
	if r.bad || len(r.rest) > 0 {
		return errAnswer
	}
	return nil
}

// fieldsReader reads lengths and what they are the lengths of.
type fieldsReader struct {
	rest []byte
	bad  bool // something was missing
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
