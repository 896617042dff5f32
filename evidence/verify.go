package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"
)

// Verify checks a bundle with the public key of a vault. If since is not nil,
// it is an earlier note of the vault or of the tenant, and the bundle must
// extend its log.
//
// An error means that Verify has no verdict. The key or the earlier note may
// be unusable, or the bundle unreadable or of another format. [ErrCannotTell]
// means that the bundle is genuine but does not reach back to the earlier
// note. Tampering is not an error: see [Report.OK]. Memory does not grow with
// the bundle.
func Verify(bundle io.Reader, vkey string, since []byte) (*Report, error) {
	key, err := note.NewVerifier(vkey)
	if err != nil {
		return nil, fmt.Errorf("evidence: the key: %w", err)
	}
	r := &reader{check: Checker{Report: &Report{}, Key: key, Since: since}}
	if err := r.read(bundle); err != nil {
		return nil, err
	}
	if !r.recognized {
		return nil, errors.New("evidence: not a bundle")
	}
	r.enter(wantTrees)
	err = r.check.Finish()
	return r.check.Report, err
}

// step is the part of a bundle that a line belongs to.
type step int

const (
	wantHeader step = iota
	wantEvents
	wantTrees
)

// reader reads the lines of a bundle.
type reader struct {
	check      Checker
	step       step
	recognized bool // at least one line has the form of a bundle
}

func (r *reader) read(bundle io.Reader) error {
	in := bufio.NewReader(bundle)
	var room []byte
	for {
		line, err := readLine(in, room[:0])
		switch {
		case errors.Is(err, io.EOF):
			if len(line) > 0 {
				r.check.wrong(Truncated)
			}
			return nil
		case err != nil:
			return fmt.Errorf("evidence: reading the bundle: %w", err)
		}
		r.line(line[:len(line)-1])
		room = line
	}
}

var errLongLine = fmt.Errorf("a line has more than %d bytes", maxLine)

// readLine appends the next line, with its end, to b.
func readLine(r *bufio.Reader, b []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		if b = append(b, part...); len(b) > maxLine {
			return b, errLongLine
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return b, err
		}
	}
}

// kinds are the kinds of lines: how a line begins, the step it belongs to, and
// how it is checked. A check reports whether the line is in canonical form.
var kinds = []struct {
	start []byte
	step  step
	check func(*reader, []byte) bool
}{
	{[]byte(`{"n":`), wantTrees, (*reader).leafLine},
	{[]byte(`{"head":`), wantTrees, (*reader).headLine},
	{[]byte(`{"size":`), wantTrees, (*reader).sizeLine},
	{[]byte(`{"event":`), wantEvents, (*reader).eventLine},
	{[]byte(`{"bundle":`), wantHeader, (*reader).headerLine},
}

// line checks one line. If the line is not of the kind that the step expects,
// it is checked as the kind that it looks like.
func (r *reader) line(b []byte) {
	for _, k := range kinds {
		if !bytes.HasPrefix(b, k.start) {
			continue
		}
		r.recognized = true
		if k.step < r.step || k.step == wantHeader && r.step > wantHeader {
			r.check.wrong(Reordered)
			return
		}
		r.enter(k.step)
		if !k.check(r, b) {
			r.unreadable(k.start[2] == 'n')
		}
		return
	}
	r.enter(max(r.step, wantEvents))
	r.unreadable(r.step == wantTrees)
}

// unreadable records a line that cannot be read, perhaps the line of a leaf.
func (r *reader) unreadable(leaf bool) {
	c := &r.check
	if !leaf {
		c.wrong(Altered)
		return
	}
	c.find(c.next, uuid.UUID{}, Altered)
	c.next++
	c.broken = true
}

// enter continues with a later step.
func (r *reader) enter(to step) {
	if r.step == wantHeader && to > wantHeader && !r.check.signed {
		r.check.wrong(Missing) // the header
	}
	if r.step <= wantEvents && to > wantEvents {
		r.check.endEvents()
	}
	r.step = max(r.step, to)
}

func (r *reader) headerLine(b []byte) bool {
	r.step = wantEvents
	var h headerLine
	if !decode(b, &h) || h.Bundle != bundleFormat || h.Events < 0 {
		return false
	}
	return r.check.Header(&Header{Tenant: h.Tenant, Note: []byte(h.Note), Events: h.Events}) == nil
}

func (r *reader) eventLine(b []byte) bool {
	var l eventLine
	return decode(b, &l) && r.check.Event(l.Event) == nil
}

func (r *reader) headLine(b []byte) bool {
	var l headLine
	return decode(b, &l) && r.check.Head(l.Head, []byte(l.Body)) == nil
}

func (r *reader) sizeLine(b []byte) bool {
	var l sizeLine
	return decode(b, &l) && r.check.Grow(l.Size, l.Hashes) == nil
}

// leafLine checks a leaf, or the roots that replace pruned leaves.
func (r *reader) leafLine(b []byte) bool {
	var l leafLine
	if !scanLeaf(b, &l) {
		var p prunedLine
		if l = (leafLine{}); !decode(b, &l) || l.N < 0 {
			return decode(b, &p) && p.N == 0 && p.Pruned > 0 && r.check.Pruned(p.Pruned, p.Roots) == nil
		}
	}
	return r.check.Leaf(&Leaf{N: l.N, Kind: l.Kind, ID: l.ID, C: l.C, Mac: l.Mac, Erased: l.Erased, text: l.Entry}) == nil
}
