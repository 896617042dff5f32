package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/storage"
)

// state is stored with a tenant's tree. The tenant's heads have its revision and
// its hash.
type state struct {
	// Revision is the number of changes of the tree so far.
	Revision int64 `json:"revision"`
	// Place is the position in the log where sequencing continues.
	Place []byte `json:"place"`
	// Old is the position where the import of older entries continues, and
	// Until the position where it ends. Both are empty if nothing is left to
	// import.
	Old   []byte `json:"old,omitempty"`
	Until []byte `json:"until,omitempty"`
	// Instance is the server for which the positions are valid.
	Instance string `json:"instance,omitempty"`
	// Imports means that the log is older than the tree. Imported is the number of
	// imported leaves.
	Imports  bool  `json:"imports,omitempty"`
	Imported int64 `json:"imported,omitempty"`
	// Leaves below the index Pruned are deleted. Entries from before Cutoff, in
	// milliseconds, may be deleted.
	Pruned int64 `json:"pruned,omitempty"`
	Cutoff int64 `json:"cutoff,omitempty"`
	// Checked is the index after the newest head that covers only pruned leaves.
	Checked int64 `json:"checked,omitempty"`
}

// vaultState is stored with the vault's tree.
type vaultState struct {
	// Revision is the number of changes of the tree so far.
	Revision int64  `json:"revision"`
	Restores int    `json:"restores"`
	Instance string `json:"instance,omitempty"`
	// Summary is the index of the newest summary, plus one.
	Summary int64 `json:"summary,omitempty"`
	// Suspended is the reason why nothing is signed, and Ahead the note that the
	// database does not continue, if there is one. Both end when a restore is
	// accepted.
	Suspended string `json:"suspended,omitempty"`
	Ahead     []byte `json:"ahead,omitempty"`
	// Keys are the public keys that the newest event about signing keys names.
	Keys []string `json:"keys,omitempty"`
	// Signed is the size of the tree in the newest stored note. Notes is a hash
	// over all stored notes.
	Signed int64  `json:"signed,omitempty"`
	Notes  []byte `json:"notes,omitempty"`
	// Lacks means that an older copy of the database was accepted, and that the
	// erasures which it may lack were not applied again yet.
	Lacks bool `json:"lacks,omitempty"`
}

// addNote adds a stored note to the hash over all notes.
func (s *vaultState) addNote(c *storage.Checkpoint) {
	b := binary.BigEndian.AppendUint64(slices.Clone(s.Notes), uint64(c.Size))
	b = binary.BigEndian.AppendUint64(b, uint64(c.At.UnixMicro()))
	sum := sha256.Sum256(append(b, c.Note...))
	s.Signed, s.Notes = c.Size, sum[:]
}

// kindOf returns the kind of a batch of leaves, or 0 if the kind is not valid.
func kindOf(b *storage.Leaves) evidence.Kind {
	if k := evidence.Kind(b.Kind); int(k) == b.Kind && k.Valid() {
		return k
	}
	return 0
}

// stateLabel is the prefix of the data for a state's MAC. No entry's data
// begins with it.
const stateLabel = "vault/tree/1"

// sealState returns the encoded state after its MAC. The MAC also covers the
// size and root of the tree.
func (l *Ledger) sealState(ctx context.Context, tree *storage.Tree, state any) ([]byte, error) {
	text, err := json.Marshal(state)
	if err != nil {
		return nil, err
	}
	mac, err := l.c.Mac(ctx, uuid.UUID(tree.Tenant), stateData(tree, text))
	return append(mac[:], text...), err
}

// stateData returns the data for a state's MAC.
func stateData(tree *storage.Tree, text []byte) []byte {
	data := binary.BigEndian.AppendUint64([]byte(stateLabel), uint64(tree.Size))
	return append(append(data, tree.Root[:]...), text...)
}

// otherMac reports whether one of the other MACs of the data is valid.
func (l *Ledger) otherMac(ctx context.Context, tenant uuid.UUID, data []byte, valid func(evidence.Mac) bool) (bool, error) {
	if l.c.OtherMacs == nil {
		return false, nil
	}
	macs, err := l.c.OtherMacs(ctx, tenant, data)
	return slices.ContainsFunc(macs, valid), err
}

// openState reads the state of a tree into a state or a vaultState. It returns
// ErrTampered if the vault did not write the state.
func (l *Ledger) openState(ctx context.Context, tree *storage.Tree, into any) error {
	if tree.State == nil {
		return nil
	}
	text := tree.State[min(len(evidence.Mac{}), len(tree.State)):]
	data := stateData(tree, text)
	mac, err := l.c.Mac(ctx, uuid.UUID(tree.Tenant), data)
	known := err == nil && bytes.HasPrefix(tree.State, mac[:])
	if err == nil && !known {
		known, err = l.otherMac(ctx, uuid.UUID(tree.Tenant), data, func(mac evidence.Mac) bool { return bytes.HasPrefix(tree.State, mac[:]) })
	}
	if err == nil && !known {
		err = fmt.Errorf("%w: the vault did not write the state of a tree", ErrTampered)
	}
	if errors.Is(err, ErrTampered) {
		l.alarms.raise(Alarm{Kind: AlarmTampered, Tenant: uuid.UUID(tree.Tenant), Verdict: evidence.Altered, Text: err.Error()})
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: the state of a tree cannot be read", ErrTampered)
	}
	return nil
}

// readVault returns the vault's tree and its state, as they are stored.
func (l *Ledger) readVault(ctx context.Context) (tree storage.Tree, st vaultState, err error) {
	if tree, err = l.tree(ctx, uuid.UUID{}); err == nil {
		err = l.openState(ctx, &tree, &st)
	}
	return tree, st, err
}

// stateHash returns the hash of a state for a tree head.
func stateHash(b []byte) evidence.Hash { return sha256.Sum256(b) }

// EntryOf converts a row of the log to an entry.
func EntryOf(l *storage.Log) evidence.Entry {
	return evidence.Entry{
		ID: uuid.UUID(l.ID), CreatedAt: l.CreatedAt, ActorID: uuid.UUID(l.ActorID), ActorType: l.ActorType,
		ActorName: l.ActorName, EntityType: l.EntityType, EntityID: l.EntityID, Operation: l.Operation,
		Message: l.Message, Origin: l.Origin,
	}
}
