package core

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/identity"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// KindKey is the kind of the record that an API key is found by. The record names the
// application. The application lists its keys, so a record alone grants nothing.
var KindKey = seal.RecordKind("application_key")

// Key is an API key of an application. It is part of the application's document.
type Key struct {
	ID        uuid.UUID   `json:"id"`
	Hash      storage.Key `json:"hash"`
	CreatedBy uuid.UUID   `json:"created_by,omitzero"`
	CreatedAt time.Time   `json:"created_at"`
	ExpiresAt time.Time   `json:"expires_at,omitzero"`
}

// Live reports whether the key has not expired.
func (k *Key) Live(now time.Time) bool { return k.ExpiresAt.IsZero() || k.ExpiresAt.After(now) }

// KeyRecord is the document of a key's own record. It has what changes without a new
// revision of the application.
type KeyRecord struct {
	Application uuid.UUID `json:"application"`
	UsedAt      time.Time `json:"used_at,omitzero"`
}

// Row returns the record of the key, without its document.
func (k *Key) Row() storage.Record {
	return storage.Record{Kind: KindKey, ID: storage.ID(k.ID), Key: k.Hash, CreatedAt: k.CreatedAt}
}

// credential is what a caller has shown to act as an application: one of its keys, or
// a JWT. It is zero for [Op.As], which shows nothing.
type credential struct {
	key      Key
	workload *workload
}

// identityMark begins the mark of a workload's credential. The mark of the identity
// follows.
const identityMark = "identity "

// mark returns the text by which a session refers to what its maker has shown. The
// embedding program that acts as an application shows nothing; its sessions end when
// the application's key is regenerated.
func (c *credential) mark(app *Application) string {
	switch {
	case c.workload != nil:
		return identityMark + c.workload.mark
	case c.key.ID != (uuid.UUID{}):
		return "key " + c.key.ID.String()
	}
	return "generation " + strconv.Itoa(app.Generation)
}

// holds reports whether a mark is still valid, and when it ends.
func (a *Application) holds(mark string) (end time.Time, ok bool) {
	if mark == (&credential{}).mark(a) {
		return time.Time{}, true
	}
	if slices.ContainsFunc(a.Identities, func(id identity.Identity) bool { return id.Mark != "" && mark == identityMark+id.Mark }) {
		return time.Time{}, true
	}
	i := slices.IndexFunc(a.Keys, func(k Key) bool { return mark == (&credential{key: k}).mark(a) })
	if i < 0 {
		return time.Time{}, false
	}
	return a.Keys[i].ExpiresAt, true
}

// Credential returns the mark of what the identity has shown to act as its
// application: see [Op.KeyHolder].
func (id Identity) Credential() string { return id.who.shown.mark(id.who.app) }

// ShortLived returns the mark of a credential that ends by itself, or "".
func (id Identity) ShortLived() string {
	if id.who.app == nil || id.who.session != (uuid.UUID{}) || !id.ByWorkload() && id.who.shown.key.ExpiresAt.IsZero() {
		return ""
	}
	return id.Credential()
}

// UsedKey returns the API key that the identity has shown, or a zero key.
func (id Identity) UsedKey() Key { return id.who.shown.key }

// UsedKeyEnd returns when the key that the identity has shown ends, or zero.
func (id Identity) UsedKeyEnd() time.Time { return id.who.shown.key.ExpiresAt }

// keyUseEvery is how precise the last use of a key is.
const keyUseEvery = time.Hour

// maxUsedKeys bounds the number of keys whose last use a node remembers.
const maxUsedKeys = 100_000

// closeUses is how long the last writes of uses may delay the end of a vault.
const closeUses = 2 * time.Second

// keyUses remembers when keys were last used, until a sweep or the end of the vault
// writes it. So no caller waits for a write, and for each key a node writes at most
// once an hour. The zero value is ready.
type keyUses struct {
	mu      sync.Mutex
	seen    bounded.Map[uuid.UUID, time.Time]
	waiting bounded.Map[uuid.UUID, keyUse]
}

// keyUse is a use of a key that has not been written yet.
type keyUse struct {
	tenant uuid.UUID
	at     time.Time
}

// noteUse remembers a use of a key, unless one is known that is less than an hour old.
func (v *Vault) noteUse(tenant, key uuid.UUID, stored, at time.Time) {
	u := &v.keyUses
	u.mu.Lock()
	defer u.mu.Unlock()
	last := u.seen[key]
	if stored.After(last) {
		last = stored
	}
	if at.Sub(last) < keyUseEvery {
		return
	}
	u.seen.Put(maxUsedKeys, key, at)
	u.waiting.Put(maxUsedKeys, key, keyUse{tenant, at})
}

// WriteUses writes when keys were last used. A failed write is not repeated, because
// the last use is a hint.
func (v *Vault) WriteUses(ctx context.Context) {
	u := &v.keyUses
	u.mu.Lock()
	waiting := u.waiting
	u.waiting = nil
	u.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(waiting), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
		use := waiting[key]
		err := v.writeUse(ctx, key, use)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, fault.ErrNotFound) && !errors.Is(err, storage.ErrStale) {
			v.Logger.WarnContext(ctx, "the last use of an API key was not written", "tenant", use.tenant, "key", key, "error", err)
		}
	}
}

// writeUse writes one use. It has no log entry.
func (v *Vault) writeUse(ctx context.Context, key uuid.UUID, use keyUse) error {
	op := v.System(storage.ID(use.tenant))
	if err := op.refresh(ctx, true); err != nil {
		return err
	}
	rec, doc, err := op.keyRecord(ctx, key)
	if err != nil || use.at.Sub(doc.UsedAt) < keyUseEvery {
		return err
	}
	doc.UsedAt = use.at
	rec.Rev++
	if err := op.SealRecord(rec, doc); err != nil {
		return err
	}
	ch := op.Change()
	ch.UpdateRecords = []storage.RecordUpdate{{Rev: rec.Rev - 1, Record: *rec}}
	return op.commitSealed(ctx, ch)
}

// keyRecord reads the record of a key.
func (op *Op) keyRecord(ctx context.Context, id uuid.UUID) (*storage.Record, *KeyRecord, error) {
	rec, err := op.Record(ctx, KindKey, id)
	if err != nil {
		return nil, nil, err
	}
	doc := &KeyRecord{}
	return rec, doc, op.OpenRecord(ctx, rec, doc)
}

// HolderOfKey returns the application that the record of a key names.
func (op *Op) HolderOfKey(ctx context.Context, key uuid.UUID) (uuid.UUID, error) {
	_, doc, err := op.keyRecord(ctx, key)
	if err != nil {
		return uuid.UUID{}, err
	}
	return doc.Application, nil
}

// UsedAt returns when a key was last used, as far as the vault knows.
func (op *Op) UsedAt(ctx context.Context, key uuid.UUID) (time.Time, error) {
	u := &op.Vault.keyUses
	u.mu.Lock()
	here := u.seen[key]
	u.mu.Unlock()
	_, doc, err := op.keyRecord(ctx, key)
	if errors.Is(err, fault.ErrNotFound) || Unreadable(err) {
		return here, nil // such a key does not work
	}
	if err != nil || here.After(doc.UsedAt) {
		return here, err
	}
	return doc.UsedAt, nil
}
