package evidence

import (
	"bytes"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func FuzzVerify(f *testing.F) {
	w := full(f)
	since := w.checkpoint()
	w.proveErased()
	f.Add(w.bundle(), since)
	plain := newModelVault(f)
	for range 3 {
		plain.enter(KindEntry)
	}
	f.Add(plain.bundle(), []byte(nil))
	f.Fuzz(func(t *testing.T, bundle, since []byte) {
		r, err := Verify(bytes.NewReader(bundle), w.vkey, since)
		if err == nil && r.OK() && (r.Origin != testOrigin || r.Size == 0) {
			t.Error("a bundle without a note is accepted")
		}
		if r != nil && len(r.Findings) > 2*MaxFindings {
			t.Error("the report has no bound")
		}
	})
}

func FuzzOpenProof(f *testing.F) {
	w := newModelVault(f)
	for range 5 {
		w.enter(KindEntry)
	}
	good := w.proof(3)
	f.Add(good)
	f.Add(w.proof(0))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := OpenProof(text, w.vkey); err == nil && p.Tenant != w.tenant {
			t.Error("a proof for another tenant is accepted")
		}
	})
}

func FuzzOpenCheckpoint(f *testing.F) {
	w := newModelVault(f)
	f.Add(w.checkpoint())
	f.Add(w.tenantNote())
	key := must.Get(note.NewVerifier(w.vkey))(f)
	f.Fuzz(func(t *testing.T, msg []byte) {
		c, err := OpenCheckpoint(msg, key)
		if err == nil && !bytes.HasPrefix(msg, []byte(c.Text())) {
			t.Error("a checkpoint differs from its note")
		}
	})
}
