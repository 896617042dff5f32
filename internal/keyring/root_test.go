package keyring

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// database is a storage with the record of the root and rings.
type database struct {
	mu    sync.Mutex
	root  *storage.Record
	fail  error // of the next write
	drops bool  // what updates write
}

func (d *database) Records(context.Context, storage.ID, string, []storage.ID) ([]storage.Record, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil {
		return nil, nil
	}
	return []storage.Record{*d.root}, nil
}

func (d *database) ListRecords(context.Context, storage.RecordFilter) ([]storage.Record, int, error) {
	return nil, 0, nil
}

func (d *database) Write(_ context.Context, ch *storage.Change) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.fail; err != nil {
		d.fail = nil
		return err
	}
	for _, rec := range ch.InsertRecords {
		if d.root != nil {
			return storage.ErrExists
		}
		d.root = &rec
	}
	for _, u := range ch.UpdateRecords {
		if d.drops {
			return nil
		}
		if d.root.Rev != u.Rev {
			return storage.ErrStale
		}
		u.Record.Rev = u.Rev + 1
		d.root = &u.Record
	}
	return nil
}

// stored returns the record, and set writes to it, as an attacker with access to the
// database can.
func (d *database) stored(t *testing.T) (rec rootRecord) {
	t.Helper()
	must.Do(t, json.Unmarshal(d.root.Body, &rec))
	return rec
}

func (d *database) set(t *testing.T, rec rootRecord) {
	t.Helper()
	d.root.Body = must.Get(json.Marshal(rec))(t)
}

func (d *database) config(key seal.AEAD, pin string) RootConfig {
	return RootConfig{Store: d, Master: key, Pin: pin, Now: time.Now}
}

func (d *database) open(t *testing.T, key seal.AEAD) *Root {
	t.Helper()
	return must.Get(OpenRoot(t.Context(), d.config(key, "")))(t)
}

func newAEAD(t *testing.T) seal.AEAD {
	t.Helper()
	return must.Get(seal.NewAEAD(seal.RandomKey()))(t)
}

// heldKey is a master key in other hands that keeps what it was asked to decrypt.
type heldKey struct {
	seal.AEAD
	asked  [][]byte
	denied bool
}

func (h *heldKey) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	h.asked = append(h.asked, bytes.Clone(ciphertext))
	if h.denied {
		return nil, errDenied
	}
	return h.AEAD.Decrypt(ciphertext, associatedData)
}

// oaep is a master key that authenticates nothing, because the public key is enough
// to encrypt.
type oaep struct{ private *rsa.PrivateKey }

func newOAEP(t *testing.T) *oaep {
	t.Helper()
	return &oaep{must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)}
}

func (k *oaep) Encrypt(plaintext, _ []byte) ([]byte, error) {
	return rsa.EncryptOAEP(sha256.New(), rand.Reader, &k.private.PublicKey, plaintext, nil)
}

func (k *oaep) Decrypt(ciphertext, _ []byte) ([]byte, error) {
	return rsa.DecryptOAEP(sha256.New(), nil, k.private, ciphertext, nil)
}

// stripped makes ciphertexts that are a byte shorter than the modulus.
type stripped struct{ *oaep }

func (k stripped) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	for {
		if c, err := k.oaep.Encrypt(plaintext, associatedData); err != nil || c[0] == 0 && c[1] != 0 {
			return c[1:], err
		}
	}
}

// Every start and every check sends the same one blob to the holder, whatever the
// database holds in the meantime.
func TestHolderGetsOneBlob(t *testing.T) {
	t.Parallel()
	db, aead := &database{}, newAEAD(t)
	made := db.open(t, aead)
	want := made.record.Wrapped
	h := &heldKey{AEAD: aead}
	root := db.open(t, h)
	must.Same(t, "calls at the start", 1, len(h.asked))
	ring := must.Get(seal.NewRing(time.Now()))(t)
	for range 100 {
		wrapped := must.Get(ring.Wrap(root, uuid.New()))(t)
		_ = must.Err(seal.Unwrap(root, uuid.New(), wrapped))
		_ = must.Err(root.Decrypt(want, nil))
		must.Get(Own(t.Context(), db, root))(t)
	}
	must.Same(t, "calls for rings", 1, len(h.asked))
	foreign := must.Get(aead.Encrypt(seal.RandomKey(), nil))(t)
	for _, swap := range []func(*rootRecord){
		func(r *rootRecord) { r.Wrapped = foreign },
		func(r *rootRecord) { r.Wrapped, r.Revision = foreign, r.Revision+1 },
		func(r *rootRecord) { r.Revision++ },
		func(r *rootRecord) { r.MAC = nil },
	} {
		rec := db.stored(t)
		kept := rec
		swap(&rec)
		db.set(t, rec)
		altered := 0
		root.Altered = func(context.Context, error) { altered++ }
		must.Do(t, root.Holds(t.Context()))
		must.Same(t, "alarms", 1, altered)
		db.set(t, kept)
	}
	if i := slices.IndexFunc(h.asked, func(b []byte) bool { return !bytes.Equal(b, want) }); i >= 0 {
		t.Errorf("call %d got another blob", i)
	}
}

// Nothing that the holder unwraps later changes which key seals, and a start with a
// swapped record fails.
func TestForeignRootIsRefused(t *testing.T) {
	t.Parallel()
	aead := newAEAD(t)
	db, other := &database{}, &database{}
	root, foreign := db.open(t, aead), other.open(t, aead) // another vault under the same key
	before := must.Get(root.Encrypt([]byte("ring"), nil))(t)
	theirs := other.stored(t)
	kept := db.stored(t)
	for name, rec := range map[string]rootRecord{
		"the blob of another vault":          {kept.Revision, theirs.Wrapped, kept.Ring, kept.MAC},
		"the record of another vault":        theirs,
		"its ring":                           {kept.Revision, kept.Wrapped, theirs.Ring, kept.MAC},
		"no blob":                            {kept.Revision, nil, kept.Ring, kept.MAC},
		"another revision":                   {kept.Revision + 1, kept.Wrapped, kept.Ring, kept.MAC},
		"a blob of this key that is no root": {kept.Revision, must.Get(aead.Encrypt([]byte("x"), nil))(t), kept.Ring, kept.MAC},
	} {
		db.set(t, rec)
		must.Do(t, root.Holds(t.Context()))
		must.Same(t, name+": what opens", "ring", string(must.Get(root.Decrypt(before, nil))(t)))
		must.Fail(foreign.Decrypt(must.Get(root.Encrypt([]byte("ring"), nil))(t), nil))(t, name+": the foreign root opens", must.Text("decryption failed"))
		pinned := db.config(aead, root.fingerprint)
		must.Fail(OpenRoot(t.Context(), pinned))(t, name+": a start with a pin", fault.ErrWrongKey)
		if name != "the record of another vault" { // it is a vault of this key, with its own rings
			must.Fail(OpenRoot(t.Context(), db.config(aead, "")))(t, name+": a start", fault.ErrWrongKey)
		}
	}
}

// A key that authenticates nothing needs the fingerprint of the root. Whoever has its
// public key cannot replace the root then.
func TestPublicKeyNeedsAPin(t *testing.T) {
	t.Parallel()
	key, db, forged := newOAEP(t), &database{}, &database{}
	made := db.open(t, key)
	fingerprint, fresh := made.Fingerprint()
	if !fresh || !made.Public() {
		t.Errorf("the first start: made %v, public %v", fresh, made.Public())
	}
	must.Fail(OpenRoot(t.Context(), db.config(key, "")))(t, "without a pin", ErrUnpinned)
	must.Fail(OpenRoot(t.Context(), db.config(Join([]seal.AEAD{newAEAD(t), key}), "")))(t, "joined, without a pin", ErrUnpinned)
	must.Get(OpenRoot(t.Context(), db.config(key, fingerprint)))(t)
	forged.open(t, &oaep{key.private}) // made with the public key alone
	db.set(t, forged.stored(t))
	must.Fail(OpenRoot(t.Context(), db.config(key, fingerprint)))(t, "a root made with the public key", fault.ErrWrongKey)
	must.Fail(OpenRoot(t.Context(), (&database{}).config(key, fingerprint)))(t, "a pin without a root", errNewRoot)

	// During a change from a key that authenticates, no fingerprint is needed until
	// an attacker puts in a root. The attacker may encrypt until the ciphertext begins with
	// a zero, which RSA does not need.
	first, changing := newAEAD(t), &database{}
	changing.open(t, first)
	both := Join([]seal.AEAD{first, key})
	changing.open(t, both)
	forged = &database{}
	forged.open(t, stripped{key})
	must.Same(t, "the length of the forged blob", 255, len(forged.stored(t).Wrapped))
	changing.set(t, forged.stored(t))
	must.Fail(OpenRoot(t.Context(), changing.config(both, "")))(t, "a root without its leading zero", ErrUnpinned)

	two := Join([]seal.AEAD{pinned{newAEAD(t), "aa"}, pinned{newAEAD(t), "bb"}})
	must.Fail(OpenRoot(t.Context(), db.config(two, "")))(t, "two pins", errPins)
}

// pinned is a key with a fingerprint in its URI.
type pinned struct {
	seal.AEAD
	root string
}

func (pinned) Public([]byte) bool { return false }
func (p pinned) Root() string     { return p.root }

// A change of the master key is one write: whatever happens before or after it, the
// vault opens with both keys, and all nodes keep the root.
func TestRewrap(t *testing.T) {
	t.Parallel()
	db, old, next := &database{}, &heldKey{AEAD: newAEAD(t)}, &heldKey{AEAD: newAEAD(t)}
	db.open(t, old)
	former := db.stored(t)
	both := Join([]seal.AEAD{next, old})
	behind := db.open(t, both)
	other := db.open(t, both)
	killed := errors.New("killed")
	db.fail = killed
	must.Match(t, "a write that fails", other.Rewrap(t.Context()), killed)
	db.open(t, old)
	db.drops = true
	must.Match(t, "a write that a trigger undoes", other.Rewrap(t.Context()), errNotKept)
	db.open(t, old)
	db.drops = false
	must.Do(t, other.Rewrap(t.Context()))
	must.Fail(OpenRoot(t.Context(), db.config(old, "")))(t, "the old key", fault.ErrWrongKey)
	must.Same(t, "the root", behind.fingerprint, db.open(t, next).fingerprint)

	// A node that has not been restarted learns the new wrapping from its next check.
	must.Do(t, behind.Holds(t.Context()))
	old.denied = true
	must.Do(t, behind.Holds(t.Context()))
	next.denied = true
	must.Match(t, "after the new key was denied", behind.Holds(t.Context()), fault.ErrKeyDenied)
	behind.Drop()

	// The former record is the vault's own, but older.
	next.denied, old.denied = false, false
	newer, asked, altered := db.stored(t), len(old.asked), 0
	behind.Altered = func(context.Context, error) { altered++ }
	db.set(t, former)
	must.Do(t, behind.Holds(t.Context()))
	must.Same(t, "calls of the old key and alarms", [2]int{0, 1}, [2]int{len(old.asked) - asked, altered})
	must.Fail(OpenRoot(t.Context(), db.config(next, "")))(t, "the former record with the new key", fault.ErrWrongKey)
	db.set(t, newer)
	must.Get(behind.Encrypt(nil, nil))(t)

	// A node that has only the old key continues with the blob that it knows.
	third := newAEAD(t)
	alone := db.open(t, next)
	must.Do(t, db.open(t, Join([]seal.AEAD{third, next})).Rewrap(t.Context()))
	must.Do(t, alone.Holds(t.Context()))
}
