package ids_test

import (
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/ids"
)

func TestKeysAreRecognized(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{ids.PublicKey, ids.PrivateKey, ids.ManagementKey, ids.SessionKey} {
		key := ids.NewKey(kind)
		if !ids.ValidKey(key) {
			t.Errorf("%s: a new key is not valid", kind)
		}
		if !strings.HasPrefix(key, "key_"+kind+"_") {
			t.Errorf("%s: the key does not start with its kind", kind)
		}
		if ids.NewKey(kind) == key {
			t.Errorf("%s: two keys are the same", kind)
		}
	}
}

func TestTypingErrorsAreFound(t *testing.T) {
	t.Parallel()
	key := ids.NewKey(ids.PrivateKey)
	other := func(c byte) string { return map[bool]string{true: "2", false: "1"}[c == '1'] }
	for name, typed := range map[string]string{
		"nothing":          "",
		"another prefix":   "tok" + key[3:],
		"another kind":     strings.Replace(key, "prv", "pub", 1),
		"an unknown kind":  strings.Replace(key, "prv", "xyz", 1),
		"no kind":          "key_" + key[len("key_prv_"):],
		"one more":         key + "1",
		"one less":         key[:len(key)-1],
		"a wrong digit":    key[:20] + other(key[20]) + key[21:],
		"a wrong checksum": key[:len(key)-1] + other(key[len(key)-1]),
	} {
		if ids.ValidKey(typed) {
			t.Errorf("%s: accepted as a key", name)
		}
	}
}
