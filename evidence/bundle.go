package evidence

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/google/uuid"
)

// bundleFormat is the name of the format and its version.
const bundleFormat = "vault-evidence/2"

// maxLine is the maximum length of a line of a bundle, in bytes.
const maxLine = 1 << 20

// Log receives the log of a tenant, part by part, in the order of a bundle. A
// [Writer] writes the bundle, and a [Checker] verifies the log.
type Log interface {
	// Header receives the tenant and the note.
	Header(h *Header) error
	// Event receives an event that concerns the tenant or the whole vault.
	Event(p Proven) error
	// Pruned receives the roots that replace the leaves below an index.
	Pruned(below int64, roots []Hash) error
	// Leaf receives the next leaf of the tenant's tree.
	Leaf(l *Leaf) error
	// Head receives a head of the tenant, after the leaves that it covers.
	Head(index int64, body []byte) error
	// Grow receives the roots of the subtrees by which the vault's tree grows to
	// a size.
	Grow(size int64, hashes []Hash) error
}

// Header is the first line of a bundle.
type Header struct {
	Tenant uuid.UUID
	Note   []byte // signed note over the vault's tree
	Events int    // number of event lines that follow
}

// Leaf is a leaf of a tenant's tree, with the entry it commits to.
type Leaf struct {
	N    int64
	Kind Kind
	ID   uuid.UUID
	C    Hash
	// Mac and Entry are nil if the row of the entry does not exist. Mac is
	// also nil if the entry was erased.
	Mac   []byte
	Entry *Entry
	// Erased is the event that allowed the erasure. It is nil if the entry
	// was not erased.
	Erased *Proven

	text *entryText // the entry as a bundle has it, instead of Entry
}

// commit returns the commitment to the entry with a mac.
func (l *Leaf) commit(tenant uuid.UUID, mac Mac) Hash {
	if l.text != nil {
		return l.text.commit(tenant, mac)
	}
	return l.Entry.Commit(tenant, mac)
}

// isOf reports whether the entry has an id.
func (l *Leaf) isOf(id uuid.UUID) bool {
	if l.text != nil {
		return l.text.ID == id.String()
	}
	return l.Entry.ID == id
}

func (l *Leaf) hasEntry() bool { return l.text != nil || l.Entry != nil }

// The lines of a bundle. Each kind starts with a different key.
type (
	headerLine struct {
		Bundle string    `json:"bundle"`
		Tenant uuid.UUID `json:"tenant"`
		Note   string    `json:"note"`
		Events int       `json:"events"`
	}
	eventLine struct {
		Event Proven `json:"event"`
	}
	leafLine struct {
		N int64 `json:"n"`
		leafBody
		Erased *Proven `json:"erased,omitempty"`
	}
	prunedLine struct {
		N      int64  `json:"n"`
		Pruned int64  `json:"pruned"`
		Roots  []Hash `json:"roots"`
	}
	headLine struct {
		Head int64  `json:"head"`
		Body string `json:"body"`
	}
	sizeLine struct {
		Size   int64  `json:"size"`
		Hashes []Hash `json:"hashes"`
	}
)

// leafBody is a leaf as bundles and proofs have it.
type leafBody struct {
	Kind  Kind       `json:"kind"`
	ID    uuid.UUID  `json:"id"`
	C     Hash       `json:"c"`
	Mac   []byte     `json:"mac,omitempty"`
	Entry *entryText `json:"entry,omitempty"`
}

func (l *Leaf) body() leafBody {
	b := leafBody{Kind: l.Kind, ID: l.ID, C: l.C, Mac: l.Mac}
	if l.Entry != nil {
		t := l.Entry.text()
		b.Entry = &t
	}
	return b
}

// Writer writes a bundle. It implements [Log].
type Writer struct{ w io.Writer }

// NewWriter returns a Writer.
func NewWriter(w io.Writer) *Writer { return &Writer{w} }

// Header implements [Log].
func (w *Writer) Header(h *Header) error {
	return w.line(headerLine{bundleFormat, h.Tenant, string(h.Note), h.Events})
}

// Event implements [Log].
func (w *Writer) Event(p Proven) error { return w.line(eventLine{p}) }

// Pruned implements [Log].
func (w *Writer) Pruned(below int64, roots []Hash) error {
	return w.line(prunedLine{0, below, roots})
}

// Leaf implements [Log].
func (w *Writer) Leaf(l *Leaf) error {
	return w.line(leafLine{l.N, l.body(), l.Erased})
}

// Head implements [Log].
func (w *Writer) Head(index int64, body []byte) error { return w.line(headLine{index, string(body)}) }

// Grow implements [Log].
func (w *Writer) Grow(size int64, hashes []Hash) error { return w.line(sizeLine{size, hashes}) }

func (w *Writer) line(v any) error {
	_, err := w.w.Write(append(encode(v), '\n'))
	return err
}

// encode returns the canonical JSON of a value. Verification accepts no other
// form.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // unreachable, because all types above can be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// decode reads a value. It reports whether the JSON is valid and canonical.
func decode(b []byte, v any) bool {
	return json.Unmarshal(b, v) == nil && bytes.Equal(encode(v), b)
}
