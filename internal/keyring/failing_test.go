package keyring

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// failingKey fails to decrypt one blob in turn with some errors. It decrypts
// everything else, but calls its service for that only if it must.
type failingKey struct {
	seal.AEAD
	blob    string
	errs    []error
	service error
}

func (k *failingKey) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	if string(ciphertext) == k.blob {
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

// A master key that does not unwrap the root is the wrong key only if its service
// responds, and neither denies the key nor times out.
func TestFailingKeyIsNotTheWrongKey(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		errs          []error
		service, want error
	}{
		"another key":                 {[]error{down, down}, nil, fault.ErrWrongKey},
		"denied":                      {[]error{errDenied}, nil, fault.ErrKeyDenied},
		"denied at the second call":   {[]error{down, errDenied}, nil, fault.ErrKeyDenied},
		"late at the second call":     {[]error{down, context.DeadlineExceeded}, nil, fault.ErrKeyUnavailable},
		"unreachable, as it says":     {[]error{down, fmt.Errorf("kms: %w", fault.ErrKeyUnavailable)}, nil, fault.ErrKeyUnavailable},
		"only what is cached decodes": {[]error{down, down}, down, fault.ErrKeyUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, aead := &database{}, newAEAD(t)
			made := db.open(t, aead)
			key := &failingKey{AEAD: aead, blob: string(made.record.Wrapped), errs: c.errs, service: c.service}
			_, err := OpenRoot(t.Context(), db.config(key, ""))
			if !errors.Is(err, c.want) || !errors.Is(c.want, fault.ErrWrongKey) && errors.Is(err, fault.ErrWrongKey) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// Nothing uses the root of a key that may not be used, even before the root is dropped, and
// no ring counts as altered.
func TestRootOfADeniedKeyIsNotUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why     error // why the key may not be used
		dropped bool
		want    error
	}{
		{fault.ErrKeyDenied, false, fault.ErrKeyDenied}, {fault.ErrKeyDenied, true, fault.ErrKeyDenied},
		{fault.ErrKeyUnavailable, false, fault.ErrKeyUnavailable}, {nil, true, fault.ErrKeyUnavailable},
	} {
		db := &database{}
		root := db.open(t, newAEAD(t))
		root.Usable = func() error { return c.why }
		if c.dropped {
			root.Drop()
		}
		must.Match(t, "a new ring", must.Err(root.Encrypt(nil, nil)), c.want)
		must.Match(t, "the vault's own ring", must.Err(Own(t.Context(), db, root)), c.want)
		w := newRingCache(t, 0)
		w.cfg.Root = root
		err := must.Err(w.Get(t.Context(), w.tenant))
		if !errors.Is(err, c.want) || errors.Is(err, ErrRing) {
			t.Errorf("the ring of a tenant: %v, want %v", err, c.want)
		}
	}
}

// What is shown of a URI has no secret: nothing of a program's arguments, and no value
// of a parameter that is not known to be harmless.
func TestShownURI(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"awskms:///alias/k?region=eu-1":                     "awskms:///alias/k?region=eu-1",
		"awskms:///alias/k?region=x&Session_Token=hunter":   "awskms:///alias/k?Session_Token=xxxxx&region=x",
		"awskms:///alias/k?context_pass=hunter":             "awskms:///alias/k?context_pass=xxxxx",
		"awskms:///k?endpoint=https%3A%2F%2Fa%3Ahunter%40b": "awskms:///k?endpoint=xxxxx",
		"hashivault://user:hunter@k":                        "hashivault://xxxxx@k",
		"hashivault://hunter@k":                             "hashivault://xxxxx@k",
		"hashivault://k#hunter":                             "hashivault://k",
		"azurekeyvault://h/keys/k?secret=hunter&root=ab":    "azurekeyvault://h/keys/k?root=ab&secret=xxxxx",
		"awskms:///k?token=%zzhunter":                       "xxxxx",
		"awskms://[hunter":                                  "xxxxx",
		"mailto:hunter":                                     "xxxxx",
		"exec:":                                             "exec:",
		"exec:/opt/hsm/sign --pin hunter /lib/so":           "exec:sign",
		"exec:sign --pass hunter":                           "exec:sign",
		"exec:sign --passphrase=hunter":                     "exec:sign",
		"exec:sign -p hunter":                               "exec:sign",
		"exec:sign --auth=hunter":                           "exec:sign",
		"exec:sign user:hunter@host":                        "exec:sign",
		"exec:sign PASSWORD=hunter":                         "exec:sign",
	} {
		must.Same(t, uri+" is shown as", want, ShownURI(uri))
	}
}
