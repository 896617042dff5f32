package evidence

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/internal/merkle"
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
	v := &verification{key: key, since: earlier{note: since}, step: wantHeader}
	if err := v.read(bundle); err != nil {
		return nil, err
	}
	if !v.recognized {
		return nil, errors.New("evidence: not a bundle")
	}
	v.finish()
	return &v.report, v.since.problem(&v.report)
}

// step is the part of a bundle that a line belongs to.
type step int

const (
	wantHeader step = iota
	wantEvents
	wantLeaves
	wantHistory
)

// verification is the state of checking a bundle.
type verification struct {
	key    note.Verifier
	report Report
	step   step

	recognized bool // at least one line has the form of a bundle
	signed     bool // the note and the head are genuine

	tenant uuid.UUID
	note   Checkpoint
	head   Event
	events struct{ want, have, last int64 }
	pruned Event // newest pruned event of the tenant
	keys   []note.Verifier

	next    int64 // index of the next leaf
	gaps    gaps
	leaves  merkle.Frontier // of the tenant's tree
	history merkle.Frontier // of the vault's tree
	since   earlier
}

// read checks the lines.
func (v *verification) read(bundle io.Reader) error {
	r := bufio.NewReader(bundle)
	var room []byte
	for {
		line, err := readLine(r, room[:0])
		switch {
		case errors.Is(err, io.EOF):
			if len(line) > 0 {
				v.find(-1, uuid.UUID{}, Truncated)
			}
			return nil
		case err != nil:
			return fmt.Errorf("evidence: reading the bundle: %w", err)
		}
		v.line(line[:len(line)-1])
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

func (v *verification) find(index int64, id uuid.UUID, verdict Verdict) {
	v.report.Add(Finding{Tenant: v.tenant, Index: index, EntryID: id, Verdict: verdict})
}

// The first bytes of lines.
var (
	headerStart  = []byte(`{"bundle":`)
	eventStart   = []byte(`{"event":`)
	leafStart    = []byte(`{"n":`)
	historyStart = []byte(`{"size":`)
)

// line checks one line. If the line is not of the kind that the step expects,
// it is checked as the kind that it looks like.
func (v *verification) line(b []byte) {
	sort, ok := wantHeader, true
	switch {
	case bytes.HasPrefix(b, headerStart):
	case bytes.HasPrefix(b, eventStart):
		sort = wantEvents
	case bytes.HasPrefix(b, leafStart):
		sort = wantLeaves
	case bytes.HasPrefix(b, historyStart):
		sort = wantHistory
	default:
		ok = false
	}
	if !ok {
		v.unreadable()
		return
	}
	v.recognized = true
	if sort < v.step || sort == wantHeader && v.step > wantHeader {
		v.find(-1, uuid.UUID{}, Reordered)
		return
	}
	v.enter(sort)
	switch sort {
	case wantHeader:
		v.headerLine(b)
	case wantEvents:
		v.eventLine(b)
	case wantLeaves:
		v.leafLine(b)
	case wantHistory:
		v.historyLine(b)
	}
}

// unreadable records an unreadable line where a line is expected.
func (v *verification) unreadable() {
	switch v.step {
	case wantHeader:
		v.find(-1, uuid.UUID{}, Altered)
		v.enter(wantEvents)
	case wantLeaves:
		v.find(v.next, uuid.UUID{}, Altered)
		v.next++
	default:
		v.find(-1, uuid.UUID{}, Altered)
	}
}

// enter continues with a later step.
func (v *verification) enter(to step) {
	if v.step == wantHeader && to > wantHeader && !v.signed {
		v.find(-1, uuid.UUID{}, Missing) // the header
	}
	if v.step <= wantEvents && to > wantEvents {
		v.endEvents()
	}
	if v.step <= wantLeaves && to > wantLeaves && v.next < v.head.Size {
		v.gaps.add(v.next, v.head.Size)
		v.next = v.head.Size
	}
	v.step = max(v.step, to)
}

func (v *verification) headerLine(b []byte) {
	v.step = wantEvents
	var h headerLine
	if !decode(b, &h) || h.Bundle != bundleFormat || h.Events < 0 {
		v.find(-1, uuid.UUID{}, Altered)
		return
	}
	v.tenant, v.events.want, v.events.last = h.Tenant, int64(h.Events), -1
	c, err := OpenCheckpoint([]byte(h.Note), v.key)
	if err != nil {
		v.find(-1, uuid.UUID{}, BadSignature)
		return
	}
	restores, err := Restores(v.key.Name(), c.Origin)
	if err != nil {
		v.find(-1, uuid.UUID{}, Forked)
		return
	}
	v.note, v.report.Origin, v.report.Size = *c, c.Origin, c.Size
	v.since.restores = restores
	head, err := h.Head.Open(c)
	if err != nil || head.Kind != EventHead || head.Tenant != h.Tenant || head.Size < 0 {
		v.find(-1, uuid.UUID{}, Altered)
		return
	}
	v.head, v.signed = *head, true
}

func (v *verification) eventLine(b []byte) {
	var l eventLine
	v.events.have++
	if !decode(b, &l) {
		v.find(-1, uuid.UUID{}, Altered)
		return
	}
	if !v.signed {
		return // nothing to check it against
	}
	e, err := l.Event.Open(&v.note)
	switch {
	case err != nil:
		v.find(-1, uuid.UUID{}, Altered)
	case l.Event.Index <= v.events.last:
		v.find(-1, uuid.UUID{}, Reordered)
	default:
		v.events.last = l.Event.Index
		v.event(l.Event.Index, e)
	}
}

// event processes a genuine event.
func (v *verification) event(index int64, e *Event) {
	switch e.Kind {
	case EventRestored:
		v.report.Restores = append(v.report.Restores, Restore{Time: e.Time, Reason: e.Reason, Index: index, Origin: e.Origin})
	case EventKeyChanged:
		for _, text := range e.Keys {
			if key, err := note.NewVerifier(text); err == nil {
				v.keys = append(v.keys, key)
			}
		}
	default:
	}
	if e.Tenant != v.tenant {
		return
	}
	switch e.Kind {
	case EventPruned:
		v.pruned = *e
	case EventLost:
		for _, id := range e.Entries {
			v.find(-1, id, LostRead)
		}
	default:
	}
}

// endEvents checks that no event line is missing, and opens the earlier note.
func (v *verification) endEvents() {
	if !v.signed {
		return
	}
	origin := v.key.Name()
	if n := len(v.report.Restores); n > 0 {
		origin = v.report.Restores[n-1].Origin
	}
	if v.events.have < v.events.want || v.note.Origin != origin {
		v.find(-1, uuid.UUID{}, Missing)
	} else if v.events.have > v.events.want {
		v.find(-1, uuid.UUID{}, Forged)
	}
	v.since.open(v)
	v.since.compare(v, true)
	v.since.compare(v, false)
}

func (v *verification) historyLine(b []byte) {
	var l historyLine
	if !decode(b, &l) {
		v.find(-1, uuid.UUID{}, Altered)
		return
	}
	if !v.signed {
		return
	}
	if err := v.history.AddRange(l.Size, l.Hashes); err != nil || len(l.Hashes) == 0 {
		v.find(-1, uuid.UUID{}, Reordered)
		return
	}
	v.since.compare(v, false)
}

// finish makes the checks that need the end of the bundle.
func (v *verification) finish() {
	cut := v.step < wantHistory
	if cut && v.step == wantLeaves && v.next < v.head.Size {
		v.find(v.next, uuid.UUID{}, Truncated)
		v.next = v.head.Size
	}
	v.enter(wantHistory)
	for _, gap := range v.gaps.all {
		for n := gap.from; n < gap.to && n-gap.from <= MaxFindings; n++ {
			v.find(n, uuid.UUID{}, Missing)
		}
	}
	switch {
	case !v.signed || v.report.tampered:
	case v.head.Size > 0 && v.leaves.Root() != v.head.Root:
		v.find(-1, uuid.UUID{}, Altered)
	case v.history.Size() < v.note.Size:
		v.find(-1, uuid.UUID{}, Truncated)
	case v.history.Size() != v.note.Size || v.history.Root() != v.note.Root:
		v.find(-1, uuid.UUID{}, Altered)
	}
	v.since.finish(v)
}
