package keyring

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// failingKey fails to decrypt one ring in turn with some errors. It decrypts
// everything else, but calls its service for that only if it must.
type failingKey struct {
	seal.AEAD
	ring    string
	errs    []error
	service error
}

func (k *failingKey) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	if string(ciphertext) == k.ring {
		err := k.errs[0]
		k.errs = k.errs[1:]
		return nil, err
	}
	if k.service != nil && seal.IsFresh(ctx) {
		return nil, k.service
	}
	return k.AEAD.Decrypt(ciphertext, associatedData)
}

func (k *failingKey) EncryptWithContext(_ context.Context, plaintext, associatedData []byte) ([]byte, error) {
	return k.AEAD.Encrypt(plaintext, associatedData)
}

// A ring that does not open counts as altered, or as wrapped with another key, only if
// the service of the master key responds, and neither denies the key nor times out.
func TestFailingKeyIsNoTampering(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		errs          []error
		service, want error // nil: the ring is bad
	}{
		"altered":                     {[]error{down, down}, nil, nil},
		"denied":                      {[]error{errDenied}, nil, fault.ErrKeyDenied},
		"denied at the second call":   {[]error{down, errDenied}, nil, fault.ErrKeyDenied},
		"late at the second call":     {[]error{down, context.DeadlineExceeded}, nil, fault.ErrKeyUnavailable},
		"unreachable, as it says":     {[]error{down, fmt.Errorf("kms: %w", fault.ErrKeyUnavailable)}, nil, fault.ErrKeyUnavailable},
		"only what is cached decodes": {[]error{down, down}, down, fault.ErrKeyUnavailable},
	} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, own), func(t *testing.T) {
				t.Parallel()
				w, bad := newWorld(t, time.Second), ErrRing
				store := byTenant{records: w.store, own: wrapped(t, w, storage.ID{})}
				key := &failingKey{AEAD: w.key, ring: string(w.store[KindRing][0].Body), errs: c.errs, service: c.service}
				w.cfg.Store, w.cfg.Master = store, key
				_, err := w.Get(t.Context(), w.tenant)
				if own {
					bad, key.ring, key.errs = fault.ErrWrongKey, string(store.own), c.errs
					_, err = Own(t.Context(), store, key)
				}
				if want := c.want; want != nil && (!errors.Is(err, want) || errors.Is(err, bad)) || want == nil && !errors.Is(err, bad) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		}
	}
}

// byTenant also has the ring of the vault itself.
type byTenant struct {
	records
	own []byte
}

func (b byTenant) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	if tenant == (storage.ID{}) {
		return []storage.Record{{Kind: kind, Body: b.own}}, nil
	}
	return b.records.Records(ctx, tenant, kind, ids)
}

func wrapped(t *testing.T, w *world, id storage.ID) []byte {
	t.Helper()
	return must.Get(Wrap(t.Context(), w.key, w.ring, id))(t)
}

func TestShownURI(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"awskms:///alias/k?region=eu-1":                   "awskms:///alias/k?region=eu-1",
		"awskms:///alias/k?region=x&Session_Token=hunter": "awskms:///alias/k?Session_Token=xxxxx&region=x",
		"hashivault://user:hunter@k":                      "hashivault://xxxxx@k",
		"hashivault://hunter@k":                           "hashivault://xxxxx@k",
		"azurekeyvault://h/keys/k?secret=hunter":          "azurekeyvault://h/keys/k?secret=xxxxx",
		"awskms:///k?token=%zzhunter":                     "xxxxx",
		"awskms://[hunter":                                "xxxxx",
		"exec:sign --pin hunter /lib/so":                  "exec:sign --pin xxxxx /lib/so",
		"exec:sign --pin  hunter":                         "exec:sign --pin xxxxx",
		"exec:sign --user-pin=hunter slot=1":              "exec:sign --user-pin=xxxxx slot=1",
		"exec:sign PASSWORD=hunter":                       "exec:sign PASSWORD=xxxxx",
	} {
		must.Same(t, uri+" is shown as", want, ShownURI(uri))
	}
}
