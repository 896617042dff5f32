package applications

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/storage"
)

// maxKeys is how many keys of an application work at the same time: one in use, one
// that replaces it, and one to spare.
const maxKeys = 3

// Key is an API key of an application. Package vault documents the fields.
type Key struct {
	core.Key
	Text   string // known only when it is created
	UsedAt time.Time
}

// kindOfKey is the kind of key in the text of the keys of an application.
var kindOfKey = map[string]string{
	string(access.Public): ids.PublicKey, string(access.Private): ids.PrivateKey, string(access.Management): ids.ManagementKey,
}

// addKey gives the application one more key.
func (app *Application) addKey(k core.Key) core.Key {
	app.Key = ids.NewKey(kindOfKey[app.Type])
	k.Hash = ids.HashKey(app.Key)
	app.keys = append(slices.Clip(app.keys), k)
	return k
}

// live returns the keys that work.
func (app *Application) live(now time.Time) []core.Key {
	return slices.DeleteFunc(slices.Clone(app.keys), func(k core.Key) bool { return !k.Live(now) })
}

// keyRows adds to a change the records of keys that an application gets or loses.
func keyRows(ctx context.Context, op *core.Op, ch *storage.Change, old, app *Application) error {
	var had, has []core.Key
	if old != nil {
		had = old.keys
	}
	if app != nil {
		has = app.keys
	}
	without := func(all, others []core.Key) []core.Key {
		return slices.DeleteFunc(slices.Clone(all), func(k core.Key) bool {
			return slices.ContainsFunc(others, func(o core.Key) bool { return o.ID == k.ID })
		})
	}
	for _, k := range without(has, had) {
		rec := k.Row()
		if err := op.SealRecord(&rec, core.KeyRecord{Application: app.ID}); err != nil {
			return err
		}
		ch.InsertRecords = append(ch.InsertRecords, rec)
	}
	var gone []storage.ID
	for _, k := range without(had, has) {
		gone = append(gone, storage.ID(k.ID))
	}
	if len(gone) == 0 {
		return nil
	}
	recs, err := op.DB().Records(ctx, op.TenantID(), core.KindKey, gone)
	for i := range recs {
		ch.DeleteRecords = append(ch.DeleteRecords, storage.RecordDelete{Kind: core.KindKey, ID: recs[i].ID, Rev: recs[i].Rev})
	}
	return err
}

// bounded returns the end of a key that the caller makes. A key for the caller's own
// application ends no later than the key that the caller has shown, so that a
// temporary key cannot make a permanent key.
func bounded(op *core.Op, application uuid.UUID, end time.Time) time.Time {
	own := op.ApplicationID() == application && application != (uuid.UUID{})
	if limit := op.UsedKeyEnd(); own && !limit.IsZero() && (end.IsZero() || end.After(limit)) {
		return limit
	}
	return end
}

// with returns the end of a log message: the key that the caller has shown.
func with(op *core.Op) string {
	if op.Application() == nil || op.Session() != (uuid.UUID{}) || op.UsedKey().ID == (uuid.UUID{}) {
		return ""
	}
	return " with key " + op.UsedKey().ID.String()
}

// CreateKey gives an application one more key.
func CreateKey(ctx context.Context, op *core.Op, id uuid.UUID, end time.Time) (*Key, error) {
	if err := mayMakeKey(op); err != nil {
		return nil, err
	}
	bad := &form.Problems{}
	if !end.IsZero() {
		form.CheckExpiry(end, op.Now, bad)
	}
	if err := fault.Of(bad); err != nil {
		return nil, err
	}
	k := core.Key{ID: op.NewID(), CreatedBy: op.Creator(), CreatedAt: op.Now, ExpiresAt: bounded(op, id, end.UTC().Truncate(time.Microsecond))}
	if end.IsZero() {
		k.ExpiresAt = bounded(op, id, time.Time{})
	}
	app, err := Records.UpdateAs(ctx, op, id, audit.Key, audit.KeyCreated(k.ID)+with(op), func(app *Application) error {
		app.keys = app.live(op.Now)
		if len(app.keys) >= maxKeys {
			return fault.New(fault.ErrConflict, "an application has at most %d keys; delete one first", maxKeys)
		}
		k = app.addKey(k)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Key{Key: k, Text: app.Key}, nil
}

// ListKeys returns the keys of an application that work, oldest first.
func ListKeys(ctx context.Context, op *core.Op, id uuid.UUID) ([]Key, error) {
	app, err := Records.Get(ctx, op, id)
	if err != nil {
		return nil, err
	}
	keys := []Key{}
	for _, k := range slices.SortedFunc(slices.Values(app.live(op.Now)), func(a, b core.Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), slices.Compare(a.ID[:], b.ID[:]))
	}) {
		used, err := op.UsedAt(ctx, k.ID)
		if err != nil {
			return nil, err
		}
		keys = append(keys, Key{Key: k, UsedAt: used})
	}
	return keys, nil
}

var errNoKey = fault.New(fault.ErrNotFound, "key not found")

// GetKey returns a key of an application.
func GetKey(ctx context.Context, op *core.Op, id, key uuid.UUID) (*Key, error) {
	app, err := Records.Get(ctx, op, id)
	if err != nil {
		return nil, err
	}
	for _, k := range app.live(op.Now) {
		if k.ID == key {
			used, err := op.UsedAt(ctx, k.ID)
			return &Key{Key: k, UsedAt: used}, err
		}
	}
	return nil, errNoKey
}

// DeleteKey deletes a key of an application. Sessions and jobs of the key end with it.
func DeleteKey(ctx context.Context, op *core.Op, id, key uuid.UUID) error {
	_, err := Records.UpdateAs(ctx, op, id, audit.Key, audit.KeyDeleted(key)+with(op), func(app *Application) error {
		live := app.live(op.Now)
		app.keys = slices.DeleteFunc(slices.Clone(live), func(k core.Key) bool { return k.ID == key })
		if len(app.keys) == len(live) {
			return errNoKey
		}
		return nil
	})
	return err
}

// RegenerateKey replaces all keys of an application by a new one.
func RegenerateKey(ctx context.Context, op *core.Op, id uuid.UUID) (*Application, error) {
	if err := mayMakeKey(op); err != nil {
		return nil, err
	}
	k := core.Key{ID: op.NewID(), CreatedBy: op.Creator(), CreatedAt: op.Now, ExpiresAt: bounded(op, id, time.Time{})}
	return Records.Update(ctx, op, id, audit.KeyRegenerated, func(app *Application) error {
		app.keys = nil
		app.addKey(k)
		app.generation++
		app.keyedAt = op.Now
		return nil
	})
}

// HasKeySince reports whether all keys of an application were replaced at a time or
// later.
func (app *Application) HasKeySince(t time.Time) bool {
	keyed := app.keyedAt
	if keyed.IsZero() {
		keyed = app.CreatedAt
	}
	return !keyed.Before(t)
}

// WithdrawKey deletes a key whose application only the key's record names.
func WithdrawKey(ctx context.Context, op *core.Op, key uuid.UUID) error {
	application, err := op.HolderOfKey(ctx, key)
	if err != nil {
		return err
	}
	return DeleteKey(ctx, op, application, key)
}
