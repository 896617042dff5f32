//go:build cgo

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/miekg/pkcs11"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultkms"
)

// TestMain makes the test binary the program, when it has the arguments of one.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[2] == label {
		main()
		return
	}
	os.Exit(m.Run())
}

// label is the label of the token and of the key.
const label = "vault"

const pin = "1234"

// module returns the path of SoftHSM2.
func module(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/usr/lib/softhsm/libsofthsm2.so", "/usr/lib*/*/softhsm/libsofthsm2.so", "/opt/homebrew/lib/softhsm/libsofthsm2.so"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	t.Fatal("SoftHSM2 is missing: install the package softhsm2")
	return ""
}

// newToken makes a token in a folder of the test, and returns a session in it.
func newToken(t *testing.T, module string) (*pkcs11.Ctx, pkcs11.SessionHandle) {
	t.Helper()
	folder, err := os.MkdirTemp("", "token")
	must(t, err)
	t.Cleanup(func() {
		for os.RemoveAll(folder) != nil { // a program writes its last file
			<-time.After(10 * time.Millisecond)
		}
	})
	conf := filepath.Join(folder, "softhsm2.conf")
	if err := os.WriteFile(conf, []byte("directories.tokendir = "+folder+"\nobjectstore.backend = file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTHSM2_CONF", conf)
	t.Setenv("TOKENVAULT_EXEC_SOFTHSM2_CONF", conf)
	t.Setenv("TOKENVAULT_EXEC_PIN", pin)
	out, err := exec.CommandContext(t.Context(), "softhsm2-util", "--init-token", "--free", "--label", label, "--pin", pin, "--so-pin", pin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := pkcs11.New(module)
	must(t, p.Initialize())
	t.Cleanup(func() { must(t, p.Finalize()); p.Destroy() })
	slot, err := (&hsm{p, label, label, pin}).slot()
	must(t, err)
	session, err := p.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION|pkcs11.CKF_RW_SESSION)
	must(t, err)
	must(t, p.Login(session, pkcs11.CKU_USER, pin))
	return p, session
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newKey generates a key that cannot leave the token.
func newKey(t *testing.T, p *pkcs11.Ctx, session pkcs11.SessionHandle) pkcs11.ObjectHandle {
	t.Helper()
	key, err := p.GenerateKey(session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_KEY_GEN, nil)}, []*pkcs11.Attribute{
		pkcs11.NewAttribute(pkcs11.CKA_TOKEN, true), pkcs11.NewAttribute(pkcs11.CKA_LABEL, label), pkcs11.NewAttribute(pkcs11.CKA_VALUE_LEN, 32),
		pkcs11.NewAttribute(pkcs11.CKA_SENSITIVE, true), pkcs11.NewAttribute(pkcs11.CKA_EXTRACTABLE, false),
		pkcs11.NewAttribute(pkcs11.CKA_ENCRYPT, true), pkcs11.NewAttribute(pkcs11.CKA_DECRYPT, true),
	})
	must(t, err)
	return key
}

// A vault whose master key is in a token serves until the key is destroyed, and
// then neither serves nor opens.
func TestDestroyedKeyEndsService(t *testing.T) {
	module := module(t)
	p, session := newToken(t, module)
	handle := newKey(t, p, session)
	path := filepath.Join(t.TempDir(), "vault.db")
	tryOpen := func() (*vault.Vault, error) {
		key, err := vaultkms.Open(t.Context(), "exec:"+os.Args[0]+" "+module+" "+label+" "+label)
		must(t, err)
		store, err := sqlite.Open(t.Context(), path)
		must(t, err)
		return vault.Open(t.Context(), store, key, &vault.Config{KeyAge: 100 * time.Millisecond})
	}
	open := func() (v *vault.Vault, err error) {
		for range 10 { // a program may miss the token: see errNoToken
			if v, err = tryOpen(); !errors.Is(err, vault.ErrKeyUnavailable) {
				break
			}
		}
		return v, err
	}
	v, err := open()
	must(t, err)
	t.Cleanup(func() { v.Close() })
	tenant, err := v.CreateTenant(t.Context(), "Acme")
	must(t, err)
	c := v.Tenant(tenant.ID)
	token, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	must(t, err)
	read := func() error {
		_, err := c.GetToken(t.Context(), token.ID)
		return err
	}
	again, err := open() // the key unwraps what another program wrapped
	must(t, err)
	must(t, again.Close())
	must(t, read())

	must(t, p.DestroyObject(session, handle))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err = read(); !errors.Is(err, vault.ErrKeyDenied); err = read() {
		if ctx.Err() != nil {
			t.Fatalf("it still serves: %v", err)
		}
	}
	if _, err := open(); !errors.Is(err, vault.ErrKeyDenied) {
		t.Errorf("a vault opens without the key: %v", err)
	}
}
