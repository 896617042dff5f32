package notary

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// bothSign is how long the former key also signs after a change.
const bothSign = 24 * time.Hour

// signer is a signer that can verify its own signatures.
type signer struct {
	note.Signer
	vkey     string
	verifier note.Verifier // nil if the signer does not reveal its public key
}

// newSigner returns the signer of a program.
func newSigner(s note.Signer) (*signer, error) {
	known, ok := s.(interface{ VerifierKey() string })
	if !ok {
		return &signer{Signer: s}, nil
	}
	verifier, err := note.NewVerifier(known.VerifierKey())
	if err != nil {
		return nil, fmt.Errorf("vault: the key of Config.Evidence.Signer: %w", err)
	}
	return &signer{s, known.VerifierKey(), verifier}, nil
}

// Verify implements [note.Verifier]. Ed25519 is deterministic, so a signer without
// a public key verifies by signing again.
func (s *signer) Verify(msg, sig []byte) bool {
	if s.verifier != nil {
		return s.verifier.Verify(msg, sig)
	}
	again, err := s.Sign(msg)
	return err == nil && bytes.Equal(again, sig)
}

// keys is the sealed document about the keys of the log.
type keys struct {
	Private string   `json:"private,omitempty"` // empty if the program has the signer
	Public  string   `json:"public"`
	Former  []former `json:"former,omitempty"` // newest first
	// Announced means that an event in the tree names all keys.
	Announced bool `json:"announced,omitempty"`

	rev *int64 // nil if it is not stored
}

// former is a key that was replaced. It also signs for a limited time, and
// verifies forever.
type former struct {
	Private string    `json:"private,omitempty"`
	Public  string    `json:"public"`
	Until   time.Time `json:"until,omitzero"`
}

// replace makes another key the current key.
func (k *keys) replace(private, public string, now time.Time) {
	k.Former = slices.Insert(k.Former, 0, former{k.Private, k.Public, now.Add(bothSign)})
	k.Private, k.Public, k.Announced = private, public, false
}

// public returns all public keys, the current key first.
func (k *keys) public() []string {
	all := []string{k.Public}
	for _, f := range k.Former {
		all = append(all, f.Public)
	}
	return all
}

// expire removes the private keys that no longer sign, and reports whether it
// removed any.
func (k *keys) expire(now time.Time) (any bool) {
	for i := range k.Former {
		if f := &k.Former[i]; f.Private != "" && !f.Until.After(now) {
			f.Private, any = "", true
		}
	}
	return any
}

var errFormat = errors.New("vault: the stored signing key has a format that this version does not know")

// private returns the private keys that sign, the current key first.
func (k *keys) private() []string {
	all := []string{k.Private}
	for _, f := range k.Former {
		all = append(all, f.Private)
	}
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

// parsed returns the keys of texts.
func parsed[K any](texts []string, parse func(string) (K, error)) ([]K, error) {
	all := make([]K, len(texts))
	for i, text := range texts {
		var err error
		if all[i], err = parse(text); err != nil {
			return nil, errFormat
		}
	}
	return all, nil
}

// loadKeys reads the keys of the log. It stores a new key if none exists, and the
// public key of the program's signer if it is not stored yet.
func (k *Keeper) loadKeys(ctx context.Context) (*keyset, error) {
	for range core.MaxAttempts {
		trees, err := k.hasTrees(ctx) // read first, because another node may create the key and then a tree
		if err != nil {
			return nil, err
		}
		doc, err := k.readKeys(ctx)
		if err != nil {
			return nil, err
		}
		changed, err := k.currentKeys(&doc, trees)
		if err != nil {
			return nil, err
		}
		if !changed {
			return k.take(doc)
		}
		// The keys are read again, because another node may have been faster.
		err = k.writeKeys(ctx, doc)
		if err != nil && !errors.Is(err, storage.ErrExists) && !errors.Is(err, storage.ErrStale) {
			return nil, err
		}
	}
	return nil, fault.ErrFaster // or the database drops what is written
}

// currentKeys updates the document to match the configuration. The document is nil
// if none is stored.
func (k *Keeper) currentKeys(doc **keys, trees bool) (changed bool, err error) {
	d, own := *doc, k.own
	if d != nil && d.Public != "" {
		name, _, _ := strings.Cut(d.Public, "+")
		if err := k.checkName(name); err != nil {
			return false, err
		}
	}
	switch {
	case own == nil && (d == nil && trees || d != nil && d.Private == ""):
		return false, errNoKey
	case own == nil && d == nil:
		*doc, err = newKeys(k.origin)
		return true, err
	case own == nil || own.vkey == "":
		return false, nil
	case d == nil:
		*doc = &keys{Public: own.vkey}
		return true, nil
	case slices.Contains(d.public(), own.vkey):
		return false, nil
	default:
		d.replace("", own.vkey, k.vault.Now())
		return true, nil
	}
}

// checkName compares the origin of the stored keys with the configuration.
func (k *Keeper) checkName(name string) error {
	asked := k.origin
	if k.own != nil {
		asked = k.own.Name()
	}
	if asked != "" && asked != name {
		return fmt.Errorf("vault: the log of this database has the origin %q; Config.Evidence has another", name)
	}
	return nil
}

var errNoKey = errors.New("vault: the key that signs the notes of this log is not in the database; set Config.Evidence.Signer")

// hasTrees reports whether the log has notes. If the database does not have their
// key, the program's signer or a deleted key has signed them. A new key must not
// continue them.
func (k *Keeper) hasTrees(ctx context.Context) (bool, error) {
	trees, err := k.store.Trees(ctx, storage.TreeFilter{Tenants: []storage.ID{{}}})
	return len(trees) > 0, err
}

// newKeys returns a new key under an origin, or under a random origin.
func newKeys(origin string) (*keys, error) {
	if origin == "" {
		origin = "vault-" + strings.ToLower(rand.Text()[:16])
	}
	private, public, err := note.GenerateKey(rand.Reader, origin)
	return &keys{Private: private, Public: public}, err
}

// keyset holds the keys that a keeper uses.
type keyset struct {
	doc       *keys
	vkey      string
	signers   []note.Signer
	verifiers []note.Verifier
}

// take makes the keeper use the keys of a document, which may be nil, and the keys
// of the program.
func (k *Keeper) take(doc *keys) (*keyset, error) {
	set := &keyset{doc: doc}
	if doc == nil {
		set.doc = &keys{}
	} else {
		var err error
		if set.signers, err = parsed(doc.private(), note.NewSigner); err != nil {
			return nil, err
		}
		if set.verifiers, err = parsed(doc.public(), note.NewVerifier); err != nil {
			return nil, err
		}
		set.vkey = doc.Public
	}
	for _, s := range []*signer{k.previous, k.own} {
		if s != nil {
			set.signers, set.verifiers, set.vkey = slices.Insert(set.signers, 0, note.Signer(s)), append(set.verifiers, s), s.vkey
		}
	}
	k.keys.Store(set)
	return set, nil
}

// refresh loads keys that another node has stored, announces a change of keys in
// the tree, and removes former keys that no longer sign.
func (k *Keeper) refresh(ctx context.Context) error {
	set, err := k.loadKeys(ctx)
	if err != nil {
		return err
	}
	k.Use(set.signers, set.verifiers)
	announced, err := k.announce(ctx, set.doc)
	if err != nil || !set.doc.expire(k.vault.Now()) && !announced {
		return err
	}
	if err := k.writeKeys(ctx, set.doc); err != nil && !errors.Is(err, storage.ErrStale) {
		return err
	}
	if set, err = k.loadKeys(ctx); err == nil {
		k.Use(set.signers, set.verifiers)
	}
	return err
}

// announce adds an event with the keys to the tree after a change, and reports
// whether it did. A ledger that cannot sign announces them later.
func (k *Keeper) announce(ctx context.Context, doc *keys) (bool, error) {
	if doc.Announced || len(doc.Former) == 0 {
		return false, nil
	}
	err := k.Record(ctx, evidence.Event{Kind: evidence.EventKeyChanged, Keys: doc.public()})
	if errors.Is(err, ledger.ErrSuspended) {
		return false, nil
	}
	doc.Announced = err == nil
	return doc.Announced, err
}

// RotateKey replaces the stored key, and returns the new public key. Both keys
// sign for a day.
func (k *Keeper) RotateKey(ctx context.Context) (string, error) {
	if k.own != nil {
		return "", fault.New(fault.ErrConflict, "the program has the signing key; change Config.Evidence.Signer")
	}
	for range core.MaxAttempts {
		doc, err := k.readKeys(ctx)
		if err != nil {
			return "", err
		}
		name, _, _ := strings.Cut(doc.Public, "+")
		next, err := newKeys(name)
		if err != nil {
			return "", err
		}
		doc.expire(k.vault.Now())
		doc.replace(next.Private, next.Public, k.vault.Now())
		err = k.writeKeys(ctx, doc)
		if errors.Is(err, storage.ErrStale) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = k.Checkpoint(ctx)
		return next.Public, err
	}
	return "", fault.ErrFaster
}

// kindKeys is the kind of the record with the keys of the log.
var kindKeys = seal.RecordKind("evidence")

// document returns the record with the keys of the log.
func (k *Keeper) document() *keyring.Document {
	return &keyring.Document{Kind: kindKeys, Field: "key", Store: k.vault.Store, Ring: k.ring}
}

// readKeys returns the stored document, or nil if none is stored.
func (k *Keeper) readKeys(ctx context.Context) (*keys, error) {
	plain, rev, err := k.document().Read(ctx)
	switch {
	case err != nil && rev != nil:
		return nil, fmt.Errorf("vault: the signing key of the log: %w", err)
	case err != nil || rev == nil:
		return nil, err
	}
	doc := &keys{rev: rev}
	if err := json.Unmarshal(plain, doc); err != nil {
		return nil, errFormat
	}
	return doc, nil
}

// checkStored returns ErrTampered if the vault's own keys are not the stored ones,
// if the stored document does not open, or if it lacks the key that signs. A
// program whose signer does not publish its key needs no document.
func (k *Keeper) checkStored(ctx context.Context) error {
	ring, err := vaultRing(ctx, k.vault)
	switch {
	case errors.Is(err, keyring.ErrNoRing), errors.Is(err, fault.ErrWrongKey), err == nil && hash(ring, nil) != hash(k.ring, nil):
		return fmt.Errorf("%w: the vault's own keys", ledger.ErrTampered)
	case err != nil:
		return err
	}
	doc, err := k.readKeys(ctx)
	if errors.Is(err, errFormat) || core.Unreadable(err) || err == nil && k.Key() != "" && (doc == nil || !slices.Contains(doc.public(), k.Key())) {
		return fmt.Errorf("%w: the signing key of the log", ledger.ErrTampered)
	}
	return err
}

// writeKeys stores the document, and replaces the revision that was read.
func (k *Keeper) writeKeys(ctx context.Context, doc *keys) error {
	plain, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return k.document().Write(ctx, plain, doc.rev, k.vault.Now())
}

// vaultRing returns the keys of the vault itself. The check of the master key
// created them, and the master key wraps them.
func vaultRing(ctx context.Context, v *core.Vault) (*seal.Ring, error) {
	return keyring.Own(ctx, v.Store, v.Root)
}
