package notary

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// While the master key is denied, evidence does nothing: the ledger of this test would
// panic.
func TestEvidencePausesWithoutTheKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		watch := keyring.NewWatch(keyring.WatchConfig{First: keyring.KeyDenied, Now: time.Now})
		k := &Keeper{vault: &core.Vault{Key: watch}, Ledger: &ledger.Ledger{}}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		k.Run(ctx)
	})
}

// stored has the ring of the vault itself and no signing key. Reads of the signing key
// fail with an error.
type stored struct {
	storage.Storage
	ring []byte
	err  error
}

func (s stored) Records(_ context.Context, _ storage.ID, kind string, _ []storage.ID) ([]storage.Record, error) {
	if kind == keyring.KindRing {
		return []storage.Record{{Kind: kind, Body: s.ring}}, nil
	}
	return nil, s.err
}

// denying is a master key that may not be used.
type denying struct{ seal.AEAD }

func (denying) Decrypt([]byte, []byte) ([]byte, error) { return nil, fault.ErrKeyDenied }

// A missing signing key is tampering, but neither a denied master key nor a failing
// database is.
func TestFailuresAreNoTampering(t *testing.T) {
	t.Parallel()
	key, err := seal.NewAEAD(seal.RandomKey())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := seal.NewRing(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	wrapped, err := ring.Wrap(key, storage.ID{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		master    seal.AEAD
		err, want error
	}{
		"the signing key is missing": {key, nil, ledger.ErrTampered},
		"the database fails":         {key, storage.ErrUnavailable, storage.ErrUnavailable},
		"the master key is denied":   {denying{key}, nil, fault.ErrKeyDenied},
	} {
		k := &Keeper{vault: &core.Vault{}, ring: ring}
		k.vault.Store, k.vault.Root = stored{ring: must.Get(json.Marshal(map[string]any{"ring": wrapped}))(t), err: c.err}, c.master
		k.keys.Store(&keyset{vkey: "example.com+1+key"})
		if err := k.checkStored(t.Context()); !errors.Is(err, c.want) || !errors.Is(c.want, ledger.ErrTampered) && errors.Is(err, ledger.ErrTampered) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
