package evident

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// kindEvidence is the kind of the record with the origin and the sealed key.
const kindEvidence = "evidence"

// signer is a signer that can verify its own signatures.
type signer struct {
	note.Signer
	vkey     string
	verifier note.Verifier // nil for a signer that does not tell its public key
}

// Verify implements [note.Verifier]. Ed25519 is deterministic, so a signer without a
// public key signs again.
func (s *signer) Verify(msg, sig []byte) bool {
	if s.verifier != nil {
		return s.verifier.Verify(msg, sig)
	}
	again, err := s.Sign(msg)
	return err == nil && bytes.Equal(again, sig)
}

// signer returns what signs notes: the program's signer, or the stored key.
func (k *Keeper) signer(ctx context.Context, c *Config) (*signer, error) {
	if c.Origin != "" {
		if err := evidence.CheckOrigin(c.Origin); err != nil {
			return nil, fmt.Errorf("vault: Config.Evidence.Origin: %w", err)
		}
	}
	if c.Signer == nil {
		return k.storedSigner(ctx, c.Origin)
	}
	if c.Origin != "" && c.Signer.Name() != c.Origin {
		return nil, errors.New("vault: Config.Evidence.Signer must have the name of Config.Evidence.Origin")
	}
	s := &signer{Signer: c.Signer}
	if known, ok := c.Signer.(interface{ VerifierKey() string }); ok {
		s.vkey = known.VerifierKey()
		var err error
		if s.verifier, err = note.NewVerifier(s.vkey); err != nil {
			return nil, fmt.Errorf("vault: the key of Config.Evidence.Signer: %w", err)
		}
	}
	return s, nil
}

// storedKey is the sealed document of the key.
type storedKey struct {
	Private string `json:"private"`
	Public  string `json:"public"`
}

// storedSigner returns the key in the database, and makes one if there is none.
func (k *Keeper) storedSigner(ctx context.Context, origin string) (*signer, error) {
	for {
		trees, err := k.hasTrees(ctx) // first: another node may create the key, and then a tree
		if err != nil {
			return nil, err
		}
		key, err := k.readKey(ctx)
		if err != nil {
			return nil, err
		}
		if key == nil && trees {
			return nil, errors.New("vault: the key that signs the notes of this log is not in the database; set Config.Evidence.Signer")
		}
		if key == nil {
			err := k.createKey(ctx, origin)
			if err != nil && !errors.Is(err, storage.ErrExists) {
				return nil, err
			}
			continue // another node may have been faster
		}
		s, err := key.signer()
		if err == nil && origin != "" && s.Name() != origin {
			return nil, fmt.Errorf("vault: the log of this database has the origin %q; Config.Evidence.Origin is another", s.Name())
		}
		return s, err
	}
}

// hasTrees reports whether the log has notes. If their key is not in the database, the
// program's signer or a deleted key has signed them, and a new key must not continue them.
func (k *Keeper) hasTrees(ctx context.Context) (bool, error) {
	trees, err := k.store.Trees(ctx, storage.TreeFilter{Tenants: []storage.ID{{}}})
	return len(trees) > 0, err
}

func (key *storedKey) signer() (*signer, error) {
	private, err := note.NewSigner(key.Private)
	if err != nil {
		return nil, errors.New("vault: the stored signing key has a format that this version does not know")
	}
	public, err := note.NewVerifier(key.Public)
	return &signer{private, key.Public, public}, err
}

var keyPlace = seal.Place{Entity: kindEvidence, Field: "key"}

func (k *Keeper) readKey(ctx context.Context) (*storedKey, error) {
	recs, err := k.vault.Store.Records(ctx, storage.ID{}, kindEvidence, []storage.ID{{}})
	if err != nil || len(recs) == 0 {
		return nil, err
	}
	place := keyPlace
	plain, err := k.ring.Open(&place, recs[0].KeyVersion, recs[0].Body)
	if err != nil {
		return nil, fmt.Errorf("vault: the signing key of the log: %w", err)
	}
	key := &storedKey{}
	if err := json.Unmarshal(plain, key); err != nil {
		return nil, errors.New("vault: the stored signing key has a format that this version does not know")
	}
	return key, nil
}

func (k *Keeper) createKey(ctx context.Context, origin string) error {
	if origin == "" {
		origin = "vault-" + strings.ToLower(rand.Text()[:16])
	}
	var key storedKey
	var err error
	if key.Private, key.Public, err = note.GenerateKey(rand.Reader, origin); err != nil {
		return err
	}
	plain, err := json.Marshal(&key)
	if err != nil {
		return err
	}
	place := keyPlace
	body, err := k.ring.Seal(&place, plain)
	if err != nil {
		return err
	}
	now := k.vault.Now()
	return k.vault.Store.Write(ctx, &storage.Change{Now: now, InsertRecords: []storage.Record{
		{Kind: kindEvidence, KeyVersion: k.ring.Version(), Body: body, CreatedAt: now},
	}})
}

// vaultRing returns the keys of the vault itself, which the master key wraps and
// the check of the master key has made.
func vaultRing(ctx context.Context, v *core.Vault) (*seal.Ring, error) {
	return keyring.Own(ctx, v.Store, v.Master)
}
