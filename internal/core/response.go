package core

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

// maxUses is the maximum number of tokens that a response can depend on. A
// response with more dependencies is not replayed.
const maxUses = 1000

// TokenUse is a token that a run of code used, with the identity of the run and
// how much it saw. The response of the run may contain the token's data. It
// is replayed only while that identity may still see as much, and the data
// still exists.
type TokenUse struct {
	// As is the application of the client instance. Zero means the caller.
	As         uuid.UUID        `json:"as,omitzero"`
	Permission string           `json:"permission"`
	ID         string           `json:"id"`
	Ord        uuid.UUID        `json:"ord"` // distinguishes it from a later token with the same id
	Shown      access.Transform `json:"shown"`
	// To is where data was sent that the run did not see, or zero.
	To access.Target `json:"to,omitempty"`
	// Modified is when the token was last changed. Zero means never.
	Modified time.Time `json:"modified,omitzero"`
	// CVCEnds is when the cvc expires that the run saw. Zero means that it
	// saw none.
	CVCEnds time.Time `json:"cvc_ends,omitzero"`
}

// TokenUses collects the tokens that a run uses, including the runs that it
// starts. The zero value is ready to use. TokenUses is safe for concurrent use.
type TokenUses struct {
	mu   sync.Mutex
	all  []TokenUse
	over bool // there were more than maxUses
}

// Add records a use.
func (u *TokenUses) Add(use TokenUse) {
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

// Changed records that a run itself has changed a token. A response that
// depended on the previous state of the token now depends on the new state.
func (u *TokenUses) Changed(ord uuid.UUID, from, to time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.all {
		if use := &u.all[i]; use.Ord == ord && use.Modified.Equal(from) {
			use.Modified = to
		}
	}
}

// StoredResponse is a response with its dependencies.
type StoredResponse struct {
	Status int
	Header http.Header
	Body   []byte

	Uses []TokenUse
	// TooMany means that the response depends on more than maxUses tokens.
	TooMany bool
}

// DependOn sets the dependencies of the response.
func (a *StoredResponse) DependOn(u *TokenUses) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a.Uses, a.TooMany = slices.Clone(u.all), u.over
}

// dependencies is the JSON before the encoded response.
type dependencies struct {
	Uses    []TokenUse `json:"uses"`
	TooMany bool       `json:"too_many,omitempty"`
}

// Encode encodes the length of the dependencies, the dependencies, and the
// response. The length is zero if there are no dependencies.
func (a *StoredResponse) Encode() ([]byte, error) {
	if len(a.Uses) == 0 && !a.TooMany {
		return append([]byte{0}, a.encodeResponse()...), nil
	}
	text, err := json.Marshal(dependencies{a.Uses, a.TooMany})
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
		var d dependencies
		if err := json.Unmarshal(text, &d); err != nil {
			return errFormat
		}
		a.Uses, a.TooMany = d.Uses, d.TooMany
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
