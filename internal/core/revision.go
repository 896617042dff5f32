package core

import (
	"bytes"
	"context"
	"math"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// A sealed document ends with the revision that its record had when it was
// written. An attacker who writes to the database can restore an older record, but
// cannot give it a newer revision. So a node that has seen a newer revision
// detects the old record.

const revisionMember = `"sealed_revision":`

// goneRevision is the revision of a deleted record.
const goneRevision = math.MaxInt64

// appendRevision adds a revision to the JSON of a document.
func appendRevision(doc []byte, revision int64) []byte {
	doc = bytes.TrimSuffix(doc, []byte("}"))
	if len(doc) > 1 {
		doc = append(doc, ',')
	}
	doc = strconv.AppendInt(append(doc, revisionMember...), revision, 10)
	return append(doc, '}')
}

// revisionOf returns the revision that a document ends with.
func revisionOf(doc []byte) (int64, error) {
	i := bytes.LastIndex(doc, []byte(revisionMember))
	if i < 1 || doc[i-1] != ',' && doc[i-1] != '{' {
		return 0, fault.ErrAltered
	}
	text := bytes.TrimSuffix(doc[i+len(revisionMember):], []byte("}"))
	revision, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || revision < 0 {
		return 0, fault.ErrAltered
	}
	return revision, nil
}

// recordKey identifies a record.
type recordKey struct {
	tenant, id storage.ID
	kind       string
}

// revisions holds the newest revision that this node has seen of each application,
// reactor and proxy, and the sessions that it has ended. The zero value is empty.
type revisions struct {
	mu   sync.Mutex
	seen bounded.Map[recordKey, int64]
	keys bounded.Map[storage.Key, recordKey] // applications by API key
}

// maxRevisions bounds the number of entries.
const maxRevisions = 100_000

// tracked reports whether nodes remember the revisions of a kind of records. Of sessions
// they remember only which ones were ended, because any caller can create many.
func tracked(kind string) bool {
	return kind == audit.Application || kind == audit.Reactor || kind == audit.Proxy
}

// note remembers a revision. It reports whether no newer revision was seen.
func (r *revisions) note(key recordKey, revision int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seen, ok := r.seen[key]; ok && revision < seen {
		return false
	}
	r.seen.Put(maxRevisions, key, revision)
	return true
}

// isOlder reports whether a newer revision was seen.
func (r *revisions) isOlder(key recordKey, revision int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return revision < r.seen[key]
}

// noteKey remembers the record that an API key belongs to.
func (r *revisions) noteKey(key storage.Key, of recordKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys.Put(maxRevisions, key, of)
}

// holder returns the record that an API key belonged to.
func (r *revisions) holder(key storage.Key) (recordKey, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of, ok := r.keys[key]
	return of, ok
}

// noteRevision remembers the revision of a record that was written or deleted. In a
// transaction of the application, only the transaction remembers the record.
func (op *Op) noteRevision(kind string, id storage.ID, revision int64) {
	switch {
	case op.tx != nil:
		op.tx.noteWrote(id)
	case tracked(kind), kind == audit.Session && revision == goneRevision:
		op.Afterwards(func() { op.Vault.revisions.note(recordKey{op.TenantID(), id, kind}, revision) })
	}
}

// NoteDeleted remembers that a change has deleted a record.
func (op *Op) NoteDeleted(kind string, id storage.ID) { op.noteRevision(kind, id, goneRevision) }

// SealedRevision returns the revision that a record was sealed with.
func (op *Op) SealedRevision(ctx context.Context, rec *storage.Record) (int64, error) {
	location := seal.RecordLocation(rec)
	doc, err := op.Open(ctx, &location, rec.KeyVersion, rec.Body)
	if err != nil {
		return 0, err
	}
	return revisionOf(doc)
}

// checkRevision refuses a record that is older than a revision that this node has
// seen. A reader may just have been slow, so it reads the record again first. It
// reports whether a newer record has replaced the given one.
func (op *Op) checkRevision(ctx context.Context, rec *storage.Record, doc []byte) (again bool, err error) {
	revision, err := revisionOf(doc)
	if err != nil || revision > rec.Rev {
		return false, fault.ErrAltered
	}
	key := recordKey{op.TenantID(), rec.ID, rec.Kind}
	switch {
	case !tracked(rec.Kind) && !op.Vault.revisions.isOlder(key, revision):
		return false, nil
	case op.tx != nil:
		return false, op.checkInTx(ctx, rec, revision)
	case op.Vault.revisions.note(key, revision):
		return false, nil
	}
	now, err := op.Vault.Store.Records(ctx, op.TenantID(), rec.Kind, []storage.ID{rec.ID})
	if err != nil {
		return false, err
	}
	if len(now) == 0 {
		return false, fault.New(fault.ErrNotFound, "%s not found", rec.Kind)
	}
	if now[0].Rev <= rec.Rev {
		return false, fault.ErrAltered
	}
	*rec = now[0]
	return true, nil
}

// checkInTx is checkRevision in a transaction of the application. It remembers
// nothing, because the transaction may roll back. The snapshot of a transaction may
// be older than a committed change. Then the database has a newer record outside of
// the transaction.
func (op *Op) checkInTx(ctx context.Context, rec *storage.Record, revision int64) error {
	if op.tx.hasWritten(uuid.UUID(rec.ID)) || !op.Vault.revisions.isOlder(recordKey{op.TenantID(), rec.ID, rec.Kind}, revision) {
		return nil
	}
	if op.tx.beside() {
		now, err := op.Vault.Store.Records(ctx, op.TenantID(), rec.Kind, []storage.ID{rec.ID})
		if err != nil {
			return err
		}
		if len(now) == 0 || now[0].Rev > rec.Rev {
			return nil
		}
	}
	return fault.ErrAltered
}

// noteMissing remembers that the application of an API key was deleted, if this
// node knew the key and no longer finds the application.
func (v *Vault) noteMissing(ctx context.Context, key storage.Key) error {
	of, known := v.revisions.holder(key)
	if !known {
		return nil
	}
	recs, err := v.Store.Records(ctx, of.tenant, of.kind, []storage.ID{of.id})
	if err == nil && len(recs) == 0 {
		v.revisions.note(of, goneRevision)
	}
	return err
}

// Lookup returns the record that has a key, of any tenant, or
// storage.ErrNotFound. It is the only way to find a record by a key.
//
// The index of keys is not sealed, so an attacker who can write to the database
// can point a key at another record. Lookup compares the keys of the record with
// the key that was looked up, and returns fault.ErrAltered if neither is equal. A
// record is sealed together with its keys, so the caller must open it before
// relying on it.
func Lookup(ctx context.Context, db storage.RecordReader, key storage.Key) (storage.Record, error) {
	rec, err := db.Lookup(ctx, key)
	if err == nil && rec.Key != key && rec.AltKey != key {
		err = fault.ErrAltered
	}
	if err != nil {
		return storage.Record{}, err
	}
	return rec, nil
}
