package evidence

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// scanLeaf reads the line of a leaf in the form that most of them have: without
// escapes and without an event. It accepts only what decode accepts, and takes a
// fraction of the time. Other lines are left to decode.
func scanLeaf(b []byte, l *leafLine) bool {
	s := scanner{rest: string(b)}
	s.skip(`{"n":`)
	l.N = s.number()
	s.skip(`,"kind":"`)
	if l.Kind.UnmarshalText([]byte(s.text())) != nil {
		return false
	}
	s.skip(`,"id":"`)
	l.ID = s.id()
	s.skip(`,"c":"`)
	s.bytes(l.C[:])
	if s.has(`,"mac":"`) {
		l.Mac = make([]byte, len(Mac{}))
		s.bytes(l.Mac)
	}
	if s.has(`,"entry":{"id":"`) {
		l.Entry = s.entry()
	}
	return !s.bad && s.rest == "}"
}

// scanner reads a line from its start.
type scanner struct {
	rest string
	bad  bool // the rest is not as expected
}

func (s *scanner) has(prefix string) (ok bool) {
	s.rest, ok = strings.CutPrefix(s.rest, prefix)
	return ok
}

func (s *scanner) skip(prefix string) {
	if !s.has(prefix) {
		s.bad = true
	}
}

// number reads a number of at most 18 digits.
func (s *scanner) number() (n int64) {
	i := 0
	for i < len(s.rest) && i < 18 && s.rest[i] >= '0' && s.rest[i] <= '9' {
		n = 10*n + int64(s.rest[i]-'0')
		i++
	}
	s.bad = s.bad || i == 0 || i > 1 && s.rest[0] == '0'
	s.rest = s.rest[i:]
	return n
}

// text reads the rest of a string and its closing quote.
func (s *scanner) text() string {
	ascii := true
	for i := range len(s.rest) {
		switch c := s.rest[i]; {
		case c == '"':
			text := s.rest[:i]
			s.rest = s.rest[i+1:]
			s.bad = s.bad || !ascii && !unescaped(text)
			return text
		case c < ' ' || c == '\\':
			s.bad = true
			return ""
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.bad = true
	return ""
}

// unescaped reports whether JSON has no escapes for the characters of a text
// outside ASCII.
func unescaped(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsAny(text, "\u2028\u2029")
}

// id reads an id in lower case.
func (s *scanner) id() (id uuid.UUID) {
	text := s.text()
	id, err := uuid.Parse(text)
	s.bad = s.bad || err != nil || len(text) != 36 || strings.ContainsAny(text, "ABCDEF")
	return id
}

var strictBase64 = base64.StdEncoding.Strict()

// bytes reads exactly as many bytes as fit.
func (s *scanner) bytes(to []byte) {
	text := s.text()
	if s.bad = s.bad || len(text) != strictBase64.EncodedLen(len(to)); s.bad {
		return
	}
	var room [48]byte
	n, err := strictBase64.Decode(room[:], []byte(text))
	s.bad = err != nil || n != len(to)
	copy(to, room[:])
}

// entry reads the fields of an entry. A field without a value is absent.
func (s *scanner) entry() *entryText {
	e := &entryText{ID: s.text()}
	s.skip(`,"created_at":"`)
	e.CreatedAt = s.text()
	for _, field := range [...]struct {
		name string
		to   *string
	}{
		{`,"actor_id":"`, &e.ActorID}, {`,"actor_type":"`, &e.ActorType}, {`,"actor_name":"`, &e.ActorName},
		{`,"entity_type":"`, &e.EntityType}, {`,"entity_id":"`, &e.EntityID}, {`,"operation":"`, &e.Operation},
		{`,"message":"`, &e.Message}, {`,"origin":"`, &e.Origin},
	} {
		if s.has(field.name) {
			*field.to = s.text()
			s.bad = s.bad || *field.to == ""
		}
	}
	s.skip("}")
	return e
}
