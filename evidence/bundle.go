package evidence

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/google/uuid"
)

// bundleFormat is the name of the format and its version.
const bundleFormat = "vault-evidence/1"

// maxLine is the maximum length of a line of a bundle, in bytes.
const maxLine = 1 << 20

// Header is the first line of a bundle.
type Header struct {
	Tenant uuid.UUID
	Note   []byte // signed note over the vault's tree
	Head   Proven // the tenant's newest head
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
}

// The lines of a bundle. Each kind starts with a different key.
type (
	headerLine struct {
		Bundle string    `json:"bundle"`
		Tenant uuid.UUID `json:"tenant"`
		Note   string    `json:"note"`
		Head   Proven    `json:"head"`
		Events int       `json:"events"`
	}
	eventLine struct {
		Event Proven `json:"event"`
	}
	leafLine struct {
		N      int64      `json:"n"`
		Kind   Kind       `json:"kind"`
		ID     uuid.UUID  `json:"id"`
		C      Hash       `json:"c"`
		Mac    []byte     `json:"mac,omitempty"`
		Entry  *entryText `json:"entry,omitempty"`
		Erased *Proven    `json:"erased,omitempty"`
	}
	prunedLine struct {
		N      int64  `json:"n"`
		Pruned int64  `json:"pruned"`
		Roots  []Hash `json:"roots"`
	}
	historyLine struct {
		Size   int64  `json:"size"`
		Hashes []Hash `json:"hashes"`
	}
)

// Writer writes a bundle. Its methods must be called in the order of the
// lines; see the package comment.
type Writer struct{ w io.Writer }

// NewWriter returns a Writer.
func NewWriter(w io.Writer) *Writer { return &Writer{w} }

// Header writes the first line.
func (w *Writer) Header(h *Header) error {
	return w.line(headerLine{bundleFormat, h.Tenant, string(h.Note), h.Head, h.Events})
}

// Event writes an event.
func (w *Writer) Event(p Proven) error { return w.line(eventLine{p}) }

// Pruned writes the roots that replace the leaves below an index.
func (w *Writer) Pruned(below int64, roots []Hash) error {
	return w.line(prunedLine{0, below, roots})
}

// Leaf writes a leaf.
func (w *Writer) Leaf(l *Leaf) error {
	line := leafLine{N: l.N, Kind: l.Kind, ID: l.ID, C: l.C, Mac: l.Mac, Erased: l.Erased}
	if l.Entry != nil {
		t := l.Entry.text()
		line.Entry = &t
	}
	return w.line(line)
}

// History writes how the vault's tree grew to a size.
func (w *Writer) History(size int64, hashes []Hash) error { return w.line(historyLine{size, hashes}) }

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
