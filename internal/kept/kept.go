// Package kept writes the answers that idempotency keys keep, with what they
// depend on: the tokens that a run of code used, and as whom.
package kept

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
)

// maxUses is how many tokens an answer can depend on. One that depends on more
// is not given again.
const maxUses = 1000

// Use is a token that a run of code used, as whom, and what it saw of it. The
// answer of the run may hold its data, so it is given again only while that
// identity may still see as much, and the data still exists.
type Use struct {
	// As is the application of the client instance; zero for the caller.
	As         uuid.UUID        `json:"as,omitzero"`
	Permission string           `json:"permission"`
	ID         string           `json:"id"`
	Ord        uuid.UUID        `json:"ord"` // tells it from a later token with the same id
	Shown      access.Transform `json:"shown"`
	// Modified is when the token had last been changed; zero for never.
	Modified time.Time `json:"modified,omitzero"`
	// CVCEnds is when the cvc ends that the run saw; zero when it saw none.
	CVCEnds time.Time `json:"cvc_ends,omitzero"`
}

// Uses collects what a run uses, and the runs that it starts. The zero value is
// ready to use, by several goroutines at once.
type Uses struct {
	mu   sync.Mutex
	all  []Use
	over bool // there were more than can be kept
}

// Add notes a use.
func (u *Uses) Add(use Use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case slices.Contains(u.all, use):
	case len(u.all) >= maxUses:
		u.over = true
	default:
		u.all = append(u.all, use)
	}
}

// Changed notes that a run has changed a token itself. An answer that depends on
// the token as it was before now depends on the token as it is.
func (u *Uses) Changed(ord uuid.UUID, from, to time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.all {
		if use := &u.all[i]; use.Ord == ord && use.Modified.Equal(from) {
			use.Modified = to
		}
	}
}

// Answer is an answer with what it depends on.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte

	Uses []Use
	// TooMany says that it depends on more tokens than can be kept.
	TooMany bool
}

// DependOn notes what the answer depends on.
func (a *Answer) DependOn(u *Uses) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a.Uses, a.TooMany = slices.Clone(u.all), u.over
}

// dependencies is what stands before the answer itself.
type dependencies struct {
	Uses    []Use `json:"uses"`
	TooMany bool  `json:"too_many,omitempty"`
}

// Encode writes the dependencies after their length, which is zero when there
// are none, and then the answer.
func (a *Answer) Encode() ([]byte, error) {
	if len(a.Uses) == 0 && !a.TooMany {
		return append([]byte{0}, a.encodeAnswer()...), nil
	}
	text, err := json.Marshal(dependencies{a.Uses, a.TooMany})
	if err != nil {
		return nil, err
	}
	out := append(binary.AppendUvarint(nil, uint64(len(text))), text...)
	return append(out, a.encodeAnswer()...), nil
}

// Decode reads what Encode wrote.
func (a *Answer) Decode(src []byte) error {
	n, width := binary.Uvarint(src)
	if width <= 0 || n > uint64(len(src)-width) {
		return errFormat
	}
	text, rest := src[width:width+int(n)], src[width+int(n):]
	if n > 0 {
		var d dependencies
		if err := json.Unmarshal(text, &d); err != nil {
			return errFormat
		}
		a.Uses, a.TooMany = d.Uses, d.TooMany
	}
	return a.decodeAnswer(rest)
}

// answerVersion is the first byte of an encoded answer.
const answerVersion = 1

// encodeAnswer writes the answer itself: a version, the status, the
// values of headers in the order of their names, and the body, each text after
// its length. The length of a body
// has one added, so that zero means no body.
func (a *Answer) encodeAnswer() []byte {
	dst := make([]byte, 0, len(a.Body)+256)
	dst = binary.AppendVarint(append(dst, answerVersion), int64(a.Status))
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

// decodeAnswer reads what encodeAnswer wrote.
func (a *Answer) decodeAnswer(src []byte) error {
	if len(src) == 0 || src[0] != answerVersion {
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
