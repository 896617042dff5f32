package vault_test

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// tampered is a database in the hands of somebody who can write to it.
type tampered struct {
	storage.Storage
	tokens  func([]storage.Token)
	records func([]storage.Record)
	lookup  func(storage.Key) (storage.Record, bool)
}

func (s *tampered) Tokens(ctx context.Context, tenant storage.ID, ids []string) ([]storage.Token, error) {
	rows, err := s.Storage.Tokens(ctx, tenant, ids)
	if s.tokens != nil {
		s.tokens(rows)
	}
	return rows, err
}

func (s *tampered) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) ([]storage.Record, error) {
	recs, err := s.Storage.Records(ctx, tenant, kind, ids)
	if s.records != nil {
		s.records(recs)
	}
	return recs, err
}

func (s *tampered) Lookup(ctx context.Context, key storage.Key) (storage.Record, error) {
	if s.lookup != nil {
		if rec, ok := s.lookup(key); ok {
			return rec, nil
		}
	}
	return s.Storage.Lookup(ctx, key)
}

func tamper(t *testing.T) (*vaulttest.Vault, *tampered) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	s := &tampered{Storage: store}
	return vaulttest.OpenStorage(t, s, nil), s
}

// A row whose columns were changed does not open: nobody gets at a token by
// moving it to a laxer container, or keeps it by moving its end.
func TestChangedRowsDoNotOpen(t *testing.T) {
	t.Parallel()
	v, store := tamper(t)
	ends := ptr(vaulttest.Start.Add(time.Hour))
	create(t, v.Tenant, vault.TokenParams{ID: "strict", Type: vault.Card, Data: vault.CardData{Number: visa, CVC: "987"}, Containers: []string{"/strict/"}, ExpiresAt: ends})
	create(t, v.Tenant, vault.TokenParams{ID: "other", Type: vault.Card, Data: vault.CardData{Number: mastercard}, Containers: []string{"/strict/"}, ExpiresAt: ends})
	other, err := store.Storage.Tokens(t.Context(), storage.ID(v.Acme.ID), []string{"other"})
	if err != nil {
		t.Fatal(err)
	}
	c := private(t, v, rule(1, "/lax/", vault.Reveal, everything...), rule(2, "/strict/", vault.Reveal, everything...))
	for name, change := range map[string]func(*storage.Token){
		"containers":           func(r *storage.Token) { r.Containers = []string{"/lax/"} },
		"type":                 func(r *storage.Token) { r.Type = "token" },
		"expiry":               func(r *storage.Token) { r.ExpiresAt = time.Time{} },
		"end of the cvc":       func(r *storage.Token) { r.CVCExpiresAt = r.CVCExpiresAt.Add(time.Hour) },
		"key version":          func(r *storage.Token) { r.KeyVersion++ },
		"another token's body": func(r *storage.Token) { r.Body = other[0].Body },
		"a bit of the body":    func(r *storage.Token) { r.Body[len(r.Body)/2] ^= 1 },
		"an empty body":        func(r *storage.Token) { r.Body = nil },
	} {
		store.tokens = func(rows []storage.Token) {
			for i := range rows {
				change(&rows[i])
			}
		}
		tok, err := c.GetToken(t.Context(), "strict")
		if err == nil {
			t.Errorf("%s changed: the token opens as %s", name, tok.Data)
		}
		wantSilent(t, err, visa, mastercard)
		if _, err := c.Detokenize(t.Context(), vault.JSON(`"{{ strict }}"`)); err == nil {
			t.Errorf("%s changed: the token can be used", name)
		}
	}
	store.tokens = nil
	get(t, c, "strict")
}

// Rights are sealed under the key that they belong to: writing another key's
// hash beside them gives nobody those rights.
func TestRightsCannotBeMovedToAnotherKey(t *testing.T) {
	t.Parallel()
	v, store := tamper(t)
	strong, err := store.Storage.Lookup(t.Context(), sha256.Sum256([]byte(v.PrivateKey)))
	if err != nil {
		t.Fatal(err)
	}
	weak := storage.Key(sha256.Sum256([]byte(v.PublicKey)))
	weakRecord, err := store.Storage.Lookup(t.Context(), weak)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Tenant.DeleteApplication(t.Context(), v.Management.ApplicationID()); err != nil { // forgets what is cached
		t.Fatal(err)
	}
	for name, change := range map[string]func(rec *storage.Record){
		"the record under another key": func(rec *storage.Record) { *rec = strong; rec.Key = weak },
		"the rights of another":        func(rec *storage.Record) { rec.Body = strong.Body },
		"another name":                 func(rec *storage.Record) { rec.Name = "Admin" },
		"another kind":                 func(rec *storage.Record) { rec.Kind = "session" },
	} {
		store.lookup = func(key storage.Key) (storage.Record, bool) {
			rec := weakRecord
			change(&rec)
			return rec, key == weak
		}
		if c, err := v.Authenticate(t.Context(), v.PublicKey); err == nil {
			t.Errorf("%s: somebody got in, with token:read: %v", name, c.Check(t.Context(), "token:read") == nil)
		}
	}
	store.lookup = nil
	authenticated(t, v.Vault, v.PublicKey)
}

// A tenant whose records were damaged is an error, not a crash.
func TestDamagedTenantIsAnError(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*storage.Record){
		"an unknown key version": func(r *storage.Record) { r.KeyVersion += 7 },
		"a bit of the body":      func(r *storage.Record) { r.Body[len(r.Body)/2] ^= 1 },
		"another name":           func(r *storage.Record) { r.Name += "x" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, store := tamper(t)
			store.records = func(recs []storage.Record) {
				for i := range recs {
					if recs[i].Kind == "tenant" {
						change(&recs[i])
					}
				}
			}
			_, err := v.Tenant.GetTenant(t.Context()) // reads it anew
			wantSilent(t, err, "Acme")
		})
	}
}

// What a database gets to see is sealed or hashed.
func TestStorageSeesNoValues(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	secrets := []string{visa, "s3cr3t", "m3tadata", "keyname", "ind3x"}
	see := func(where string, parts ...[]byte) {
		for _, part := range parts {
			for _, s := range secrets {
				if strings.Contains(string(part), s) {
					t.Errorf("%s holds %s", where, s)
				}
			}
		}
	}
	store.before = func(call string, ch *storage.Change) error {
		if call != "Write" {
			return nil
		}
		for _, row := range ch.InsertTokens {
			see("a token", row.Body, row.CVC, row.Fingerprint[:], row.Dedup[:], []byte(row.ID))
			for _, h := range row.Hashes {
				see("a hash", h[:])
			}
		}
		for _, rec := range ch.InsertRecords {
			see("a record", rec.Body, rec.Key[:], rec.AltKey[:])
		}
		for _, e := range ch.Logs {
			see("a log entry", []byte(e.Message+e.EntityID))
		}
		return nil
	}
	tokenize(t, v.Tenant, `["s3cr3t",{"type":"card","data":{"number":"4242424242424242","cvc":"987"},"metadata":{"keyname":"m3tadata"},"mask":{"x":"s3cr3t"},"search_indexes":["ind3x"]}]`)
	if _, err := v.Tenant.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "module.exports = async () => 's3cr3t'", Configuration: map[string]string{"keyname": "s3cr3t"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Tenant.CreateProxy(t.Context(), vault.ProxyParams{Name: "p", DestinationURL: "https://example.com/s3cr3t", Configuration: map[string]string{"keyname": "s3cr3t"}}); err != nil {
		t.Fatal(err)
	}
}
