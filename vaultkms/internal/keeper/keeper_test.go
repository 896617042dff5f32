package keeper

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A ciphertext opens only with its associated data, although the service knows none.
func TestAssociatedData(t *testing.T) {
	t.Parallel()
	same := func(_ context.Context, data []byte) ([]byte, error) { return append([]byte(nil), data...), nil }
	key := New(Service{Encrypt: same, Decrypt: same, Denies: func(error) bool { return false }})
	sealed := must.Get(key.Encrypt([]byte("root"), []byte("place")))(t)
	must.Same(t, "opened", "root", string(must.Get(key.Decrypt(sealed, []byte("place")))(t)))
	must.Fail(key.Decrypt(sealed, []byte("other")))(t, "another place", errBound)
	must.Fail(key.Decrypt(sealed[:31], []byte("place")))(t, "a short answer", errBound)
	must.Do(t, key.Close())
}

// An error that denies the key matches ErrKeyDenied, and others do not.
func TestDenials(t *testing.T) {
	t.Parallel()
	denied, down := errors.New("disabled"), errors.New("down")
	for _, err := range []error{denied, down} {
		fail := func(context.Context, []byte) ([]byte, error) { return nil, err }
		key := New(Service{Encrypt: fail, Decrypt: fail, Denies: func(e error) bool { return errors.Is(e, denied) }})
		_, decrypt := key.Decrypt(nil, nil)
		_, encrypt := key.Encrypt(nil, nil)
		for _, got := range []error{decrypt, encrypt} {
			if !errors.Is(got, err) || errors.Is(got, vault.ErrKeyDenied) != errors.Is(err, denied) {
				t.Errorf("%v becomes %v", err, got)
			}
		}
	}
}

// Errors about URIs show nothing of them.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, uri := range []string{
		"", "kms://", "kms://user:hunter2@key", "://hunter2", "kms://k?token=hunter2", "kms://k?region=a&region=hunter2", "kms://k?pin=%zzhunter2",
		"other://hunter2", "kms://k#hunter2", "kms://[hunter2",
	} {
		_, err := Parse(uri, "kms", "region", "context_*")
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", uri, err)
		}
	}
	u := must.Get(Parse("kms:///alias/k?region=eu&context_a=b&root=abc", "kms", "region", "context_*"))(t)
	must.Same(t, "path and root", [2]string{"alias/k", "abc"}, [2]string{u.Path, u.Root})
}
