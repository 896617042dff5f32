package ledger

import (
	"bytes"
	"errors"
	"slices"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/ledger/merkle"
	"github.com/seed-72ea4aab/vault/storage"
)

// walk grows the vault's tree event by event and compares it with the notes.
type walk struct {
	v      *verification
	f      merkle.Frontier
	stored func() (*storage.Checkpoint, error, bool) // returns the next stored note
	sum    vaultState                                // of the stored notes so far
	note   *evidence.Checkpoint                      // the next stored note
	notes  []evidence.Checkpoint                     // of anchors and others, smallest first
	left   []evidence.Checkpoint                     // contradicting notes from elsewhere; judged at the end
	began  bool
	wrong  bool
}

// others collects the notes that are not from the database.
func (w *walk) others(o *VerifyOptions) {
	l := w.v.l
	all := slices.Clone(o.Since)
	for _, a := range l.anchors {
		if msg, _ := a.newest(); msg != nil {
			w.v.report.Anchors++
			all = append(all, msg)
		}
	}
	l.mu.Lock()
	if l.vault.note != nil {
		all = append(all, l.vault.note)
	}
	if l.vault.ahead != nil {
		all = append(all, l.vault.ahead)
	}
	vault := l.vault.tree
	l.mu.Unlock()
	for i, msg := range all {
		if slices.ContainsFunc(all[:i], func(other []byte) bool { return bytes.Equal(msg, other) }) {
			continue
		}
		c, err := evidence.OpenCheckpoint(msg, l.keys()...)
		if err == nil {
			if i < len(o.Since) { // the others are stored too, or not counted
				w.v.report.Notes++
			}
			w.notes = append(w.notes, *c)
			continue
		}
		if known, err := l.explained(w.v.ctx, vault, msg); err != nil || !known {
			w.v.findVault(evidence.BadSignature)
		}
	}
	slices.SortFunc(w.notes, func(a, b evidence.Checkpoint) int { return int(a.Size - b.Size) })
}

// advance reads the next stored note.
func (w *walk) advance() error {
	w.note = nil
	stored, err, ok := w.stored()
	if err != nil || !ok {
		return err
	}
	w.sum.addNote(stored)
	c, err := evidence.OpenCheckpoint(stored.Note, w.v.l.keys()...)
	if err != nil || c.Size != stored.Size {
		w.v.findVault(evidence.BadSignature)
		return w.advance()
	}
	w.v.report.Notes++
	w.note = c
	return nil
}

// compare compares the tree with the notes of its current size.
func (w *walk) compare() error {
	if !w.began {
		w.began = true
		if err := w.advance(); err != nil {
			return err
		}
	}
	for w.note != nil && w.note.Size <= w.f.Size() {
		if w.note.Root != w.f.Root() {
			w.fork()
		}
		if err := w.advance(); err != nil {
			return err
		}
	}
	for len(w.notes) > 0 && w.notes[0].Size <= w.f.Size() {
		if w.notes[0].Root != w.f.Root() {
			w.left = append(w.left, w.notes[0])
		}
		w.notes = w.notes[1:]
	}
	return nil
}

// fork reports once that the tree contradicts a note.
func (w *walk) fork() {
	if !w.wrong {
		w.v.findVault(evidence.Forked)
	}
	w.wrong = true
}

// finish compares the whole tree with its row and the remaining notes.
func (w *walk) finish(tree *storage.Tree) error {
	if err := w.compare(); err != nil {
		return err
	}
	v := w.v
	for w.note != nil { // a stored note beyond the tree
		w.fork()
		if err := w.advance(); err != nil {
			return err
		}
	}
	origin := v.l.c.Name
	if n := len(v.report.Restores); n > 0 {
		origin = v.report.Restores[n-1].Origin
	}
	if w.f.Root() != merkle.Hash(tree.Root) || v.report.Origin != origin || w.sum.Signed != v.state.Signed || !bytes.Equal(w.sum.Notes, v.state.Notes) {
		v.findVault(evidence.Altered)
	}
	w.rest()
	return w.unknownNotes()
}

// rest judges the notes that the tree does not reach or contradicts. If a
// restore was accepted, notes of an earlier origin may be larger than the tree
// at the restore.
func (w *walk) rest() {
	for _, n := range append(w.left, w.notes...) {
		past, err := evidence.Restores(w.v.l.c.Name, n.Origin)
		next, ok := w.v.report.NextRestore(w.v.l.c.Name, past)
		switch {
		case err != nil:
			w.fork()
		case ok && n.Size > next.Index:
		case n.Size > w.f.Size() && !w.isLater(&n):
			w.v.findVault(evidence.Truncated)
		case n.Size <= w.f.Size():
			w.fork()
		}
	}
}

// isLater reports whether a note was signed during the verification.
func (w *walk) isLater(n *evidence.Checkpoint) bool {
	l := w.v.l
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.vault.suspended == "" && n.Size <= l.vault.signed.Size && l.refresh(w.v.ctx) == nil && n.Size <= l.vault.tree.Size
}

// unknownNotes looks for stored notes that the vault's state does not cover.
func (w *walk) unknownNotes() error {
	v := w.v
	later, err := v.l.c.Store.Checkpoints(v.ctx, storage.CheckpointQuery{Above: v.state.Signed, Below: newest, Limit: 1})
	if err != nil || len(later) == 0 {
		return err
	}
	_, now, err := v.l.readVault(v.ctx) // another may have been signed
	if err == nil && now.Signed < later[0].Size {
		v.findVault(evidence.Forged)
	}
	if errors.Is(err, ErrTampered) {
		return nil // it was found already
	}
	return err
}
