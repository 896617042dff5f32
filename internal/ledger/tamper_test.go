package ledger

import (
	"bytes"
	"encoding/base64"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A bundle does not show the MAC of an invented entry, although the entry is put
// into the place of an old one.
func TestBundleIsNoOracle(t *testing.T) {
	t.Parallel()
	for _, kind := range []evidence.Kind{evidence.KindEntry, evidence.KindImported, evidence.KindVault} {
		r, l, tenant := begun(t)
		e := EntryOf(&r.write(l, tenant, 1)[0])
		r.checkpoint(l)
		e.ID = r.id()
		mac, vault := macOf(tenant, e.AppendMacFields(nil)), macOf(uuid.UUID{}, AppendVaultMacFields(nil, tenant, e))
		r.exec("UPDATE vault_logs SET id = ?, mac = NULL WHERE tenant_id = ?", e.ID[:], tenant[:])
		r.exec("UPDATE vault_log_leaves SET kind = ?, ids = ? WHERE tenant_id = ?", int(kind), e.ID[:], tenant[:])
		bundle := r.bundle(l, tenant)
		for _, secret := range [][]byte{mac[:], vault[:]} {
			if bytes.Contains(bundle, []byte(base64.StdEncoding.EncodeToString(secret))) {
				t.Errorf("as an entry of the kind %s, an invented entry gets a mac: %s", kind, bundle)
			}
		}
		if !bytes.Contains(bundle, []byte(e.ID.String())) {
			t.Errorf("the bundle does not have the invented entry: %s", bundle)
		}
	}
}

// Notes of an unknown key, and a note that the vault's state does not count, are
// found in place.
func TestForeignNotesAreFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		since     bool
		exec      string
		suspended bool
		want      evidence.Verdict
	}{
		"a note from elsewhere": {since: true, want: evidence.BadSignature},
		"the newest stored note": {
			exec: "UPDATE vault_log_checkpoints SET note = CAST('unsigned' AS BLOB)", suspended: true, want: evidence.BadSignature,
		},
		"a note beyond the state": {exec: "UPDATE vault_log_checkpoints SET size = size + 1", want: evidence.Forged},
		"an altered state":        {exec: "UPDATE vault_log_trees SET state = zeroblob(40) WHERE tenant_id = zeroblob(16)", want: evidence.Altered},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, l, tenant := begun(t)
			r.write(l, tenant, 3)
			r.checkpoint(l)
			var o VerifyOptions
			if test.since {
				o.Since = [][]byte{[]byte("unsigned")}
			}
			if test.exec != "" {
				r.exec(test.exec)
			}
			report := must.Get(l.Verify(t.Context(), o))(t)
			if !slices.Contains(verdictsOf(report), test.want) {
				t.Errorf("%v, want %v", verdictsOf(report), test.want)
			}
			if test.suspended {
				l = r.open()
				_, _ = l.Checkpoint(t.Context())
				must.Same(t, "suspended", true, l.Status().Suspended != "")
			}
		})
	}
}
