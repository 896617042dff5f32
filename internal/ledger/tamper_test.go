package ledger

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/seed-72ea4aab/vault/evidence"
)

// A bundle does not show the MAC of an invented entry, although the entry is put
// into the place of an old one.
func TestBundleIsNoOracle(t *testing.T) {
	t.Parallel()
	for _, kind := range []evidence.Kind{evidence.KindOld, evidence.KindUnsigned} {
		r, l, tenant := begun(t)
		e := EntryOf(&r.write(l, tenant, 1)[0])
		r.checkpoint(l)
		e.ID = r.id()
		mac, salt := macOf(tenant, e.AppendMacFields(nil)), macOf(tenant, e.AppendMacFields([]byte(saltLabel)))
		r.exec("UPDATE vault_logs SET id = ?, mac = NULL WHERE tenant_id = ?", e.ID[:], tenant[:])
		r.exec("UPDATE vault_log_leaves SET kind = ?, ids = ? WHERE tenant_id = ?", int(kind), e.ID[:], tenant[:])
		bundle := r.bundle(l, tenant)
		for _, secret := range [][]byte{mac[:], salt[:]} {
			if bytes.Contains(bundle, []byte(base64.StdEncoding.EncodeToString(secret))) {
				t.Errorf("as an entry of the kind %s, an invented entry gets a mac: %s", kind, bundle)
			}
		}
		if !bytes.Contains(bundle, []byte(e.ID.String())) {
			t.Errorf("the bundle does not have the invented entry: %s", bundle)
		}
	}
}
