package vault_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/keygate"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// changing is a database whose master key is changed while nodes serve it.
type changing struct {
	path     string
	old, new *vault.Key
}

// node opens the database as another node.
func (c *changing) node(t *testing.T, key vault.AEAD) *vault.Vault {
	t.Helper()
	return given.Open(t, given.SQLite(t, c.path), key, vault.Config{Now: vaulttest.NewClock(vaulttest.Start).Now})
}

// refuses checks that a key does not open the database.
func (c *changing) refuses(t *testing.T, what string, key vault.AEAD) {
	t.Helper()
	must.Match(t, what, must.Err(vault.Open(t.Context(), given.SQLite(t, c.path), key, nil)), vault.ErrWrongKey)
}

// serves checks that a node can read, write, and create tenants for the others.
func serves(t *testing.T, v *vault.Vault, tenants ...uuid.UUID) uuid.UUID {
	t.Helper()
	for _, tenant := range tenants {
		tok := given.Create(t, v.Tenant(tenant).Client, generic)
		given.WantData(t, "data", given.Get(t, v.Tenant(tenant).Client, tok.ID).Data, `"x"`)
	}
	return given.TenantOf(t, v).TenantID()
}

// In each step of a change of the master key all nodes serve, including nodes that
// are a step behind. At the end the old key is not needed.
func TestMasterKeyIsChangedWhileNodesServe(t *testing.T) {
	t.Parallel()
	c := &changing{filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), vault.NewKey()}
	behind := c.node(t, c.old)
	tenants := []uuid.UUID{serves(t, behind)}
	for _, key := range []vault.AEAD{vault.JoinKeys(c.old, c.new), vault.JoinKeys(c.new, c.old)} {
		ahead := c.node(t, key)
		for _, v := range []*vault.Vault{behind, ahead, behind} {
			tenants = append(tenants, serves(t, v, tenants...))
		}
		behind = ahead
	}
	c.refuses(t, "the new key alone, too early", c.new)

	deleted := serves(t, behind)
	must.Do(t, behind.DeleteTenant(t.Context(), deleted))
	other := c.node(t, vault.JoinKeys(c.new, c.old))
	serves(t, other, tenants...)
	for range 2 { // it can be called again
		must.Do(t, behind.RewrapDataKeys(t.Context()))
	}
	tenants = append(tenants, serves(t, other, tenants...))

	c.refuses(t, "the old key", c.old)
	last := c.node(t, c.new)
	for _, v := range []*vault.Vault{last, behind, other} {
		tenants = append(tenants, serves(t, v, tenants...))
	}
	log := given.Messages(t, last.Tenant(tenants[0]).Client, vault.ListLogsParams{EntityType: "tenant"})
	given.Same(t, "log", log, []string{"Tenant created"})
}

// service is a master key in a KMS that can be down or deny a call.
type service struct {
	vault.AEAD
	sealing, opening error
	recovers         bool // after the first refusal
}

func (s *service) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	if s.sealing != nil {
		return nil, s.sealing
	}
	return s.AEAD.Encrypt(plaintext, associatedData)
}

func (s *service) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	if err := s.opening; err != nil {
		if s.recovers {
			s.sealing, s.opening = nil, nil
		}
		return nil, err
	}
	return s.AEAD.Decrypt(ciphertext, associatedData)
}

// A broken master key is not reported as wrong, whatever its error is, and a wrong
// key is not reported as broken.
func TestOpenDistinguishesBrokenAndWrongKeys(t *testing.T) {
	t.Parallel()
	down := errors.New("kms: deadline exceeded")
	right, wrong := vault.NewKey(), vault.NewKey()
	for name, test := range map[string]struct {
		key  vault.AEAD
		want []error // none: it opens
	}{
		"down":                      {&service{AEAD: right, sealing: down, opening: down}, []error{vault.ErrKeyUnavailable, down}},
		"may seal alone":            {&service{AEAD: right, opening: down}, []error{vault.ErrKeyUnavailable, down}},
		"down, and another key":     {vault.JoinKeys(wrong, &service{AEAD: right, sealing: down, opening: down}), []error{vault.ErrKeyUnavailable, down}},
		"down, and not needed":      {vault.JoinKeys(right, &service{AEAD: wrong, sealing: down, opening: down}), nil},
		"back after a moment":       {&service{AEAD: right, sealing: down, opening: down, recovers: true}, nil},
		"wrong":                     {&service{AEAD: wrong}, []error{vault.ErrWrongKey}},
		"wrong, back after a while": {&service{AEAD: wrong, opening: down, recovers: true}, []error{vault.ErrWrongKey}},
		"several wrong ones":        {vault.JoinKeys(wrong, vault.NewKey()), []error{vault.ErrWrongKey}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &changing{path: filepath.Join(t.TempDir(), "vault.db")}
			c.node(t, right)
			v, err := vault.Open(t.Context(), given.SQLite(t, c.path), test.key, nil)
			if err == nil {
				defer v.Close()
			}
			given.Same(t, fmt.Sprint("opened: ", err), err == nil, test.want == nil)
			for _, want := range test.want {
				must.Match(t, name, err, want)
			}
			if errors.Is(err, vault.ErrWrongKey) && errors.Is(err, vault.ErrKeyUnavailable) {
				t.Errorf("both wrong and broken: %v", err)
			}
		})
	}
}

// A broken key leaves a new database unchanged for the working key.
func TestBrokenKeyChangesNothing(t *testing.T) {
	t.Parallel()
	denied := errors.New("kms: permission denied")
	for name, key := range map[string]*service{
		"seals nothing": {AEAD: vault.NewKey(), sealing: denied},
		"opens nothing": {AEAD: vault.NewKey(), opening: denied},
	} {
		path := filepath.Join(t.TempDir(), "vault.db")
		_, err := vault.Open(t.Context(), given.SQLite(t, path), key, nil)
		must.Match(t, name, err, vault.ErrKeyUnavailable)
		must.Match(t, name, err, denied)
		(&changing{path: path}).node(t, vault.NewKey())
	}
}

// The master key gets one blob when a vault is opened, the same on every node. Nothing
// that tenants do calls it.
func TestMasterKeyGetsOneBlob(t *testing.T) {
	t.Parallel()
	c := &changing{path: filepath.Join(t.TempDir(), "vault.db")}
	key := &kmsKey{Key: vault.NewKey()}
	first := c.node(t, key)
	tenant := serves(t, first)
	for _, v := range []*vault.Vault{c.node(t, key), c.node(t, key)} {
		key.calls.Store(0)
		again := c.node(t, key)
		given.Same(t, "calls of the key at the start", key.calls.Load(), 1)
		given.Same(t, "the root", again.RootFingerprint(), first.RootFingerprint())
		other := serves(t, v, tenant)
		serves(t, again, other)
		must.Get(v.ListTenants(t.Context(), vault.PageParams{}))(t)
		must.Get(v.ForwardCA(t.Context()))(t)
		must.Do(t, v.DeleteTenant(t.Context(), other))
		given.Same(t, "calls of the key", key.calls.Load(), 1)
	}
}

// A vault with a key that anybody can encrypt for opens with the fingerprint of its root
// alone, which is logged when the vault is made.
func TestPublicKeyNeedsTheFingerprint(t *testing.T) {
	t.Parallel()
	key := &oaepKey{must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)}
	path, other := filepath.Join(t.TempDir(), "vault.db"), filepath.Join(t.TempDir(), "other.db")
	var log bytes.Buffer
	made := given.Open(t, given.SQLite(t, path), key, vault.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), KeyAge: -1})
	root := made.RootFingerprint()
	must.Contain(t, "the log", log.String(), "root="+root)
	tenant := serves(t, made)
	must.Do(t, made.Close())
	must.Fail(vault.Open(t.Context(), given.SQLite(t, path), key, nil))(t, "without the fingerprint", must.Text("--root"))
	v := given.Open(t, given.SQLite(t, path), key, vault.Config{Root: root})
	serves(t, v, tenant)
	must.Do(t, v.Close())

	// Somebody with the database and the public key puts in a root that they know.
	must.Do(t, given.Open(t, given.SQLite(t, other), &oaepKey{key.private}, vault.Config{}).Close())
	from, to := given.SQLite(t, other), given.SQLite(t, path)
	theirs := must.Get(from.Records(t.Context(), storage.ID{}, "ring", []storage.ID{{}}))(t)
	ours := must.Get(to.Records(t.Context(), storage.ID{}, "ring", []storage.ID{{}}))(t)
	ours[0].Body = theirs[0].Body
	must.Do(t, to.Write(t.Context(), &storage.Change{Now: time.Now(), UpdateRecords: []storage.RecordUpdate{{Rev: ours[0].Rev, Record: ours[0]}}}))
	must.Do(t, errors.Join(from.Close(), to.Close()))
	must.Fail(vault.Open(t.Context(), given.SQLite(t, path), key, &vault.Config{Root: root}))(t, "a foreign root", vault.ErrWrongKey)
}

// oaepKey is a master key that authenticates nothing.
type oaepKey struct{ private *rsa.PrivateKey }

func (k *oaepKey) Encrypt(plaintext, _ []byte) ([]byte, error) {
	return rsa.EncryptOAEP(sha256.New(), rand.Reader, &k.private.PublicKey, plaintext, nil)
}

func (k *oaepKey) Decrypt(ciphertext, _ []byte) ([]byte, error) {
	return rsa.DecryptOAEP(sha256.New(), nil, k.private, ciphertext, nil)
}

// rotating is a tenant whose keys are replaced while two nodes serve it.
type rotating struct {
	key    *vault.Key
	store  storage.Storage
	vaults [2]*vault.Vault
	clock  *vaulttest.Clock
	id     uuid.UUID
	c      *vault.Client
}

// newRotating opens two nodes. In the short run their rotations do not wait. The
// nodes then read keys for each operation, because a node with older keys could not
// write.
func newRotating(t *testing.T) *rotating {
	t.Helper()
	path, gate := filepath.Join(t.TempDir(), "vault.db"), &keygate.Gate{}
	r := &rotating{key: vault.NewKey(), clock: vaulttest.NewClock(vaulttest.Start)}
	for i := range r.vaults {
		store, cfg := given.SQLite(t, path), vault.Config{Now: r.clock.Now}
		r.store = store
		if !long.Run {
			r.store, cfg.KeyAge = &given.Gated{Store: store, Gate: gate}, time.Nanosecond
		}
		r.vaults[i] = given.Open(t, r.store, r.key, cfg)
	}
	r.c = given.TenantOf(t, r.vaults[0])
	r.id = r.c.TenantID()
	return r
}

// ring returns the tenant's keys as they are stored.
func (r *rotating) ring(t *testing.T) *seal.Ring {
	t.Helper()
	recs, err := r.store.Records(t.Context(), storage.ID(r.id), "ring", []storage.ID{storage.ID(r.id)})
	if err != nil || len(recs) != 1 {
		t.Fatalf("%d rings (%v)", len(recs), err)
	}
	return must.Get(seal.Unwrap(given.RootOf(t, r.store, r.key), r.id, recs[0].Body))(t)
}

// below counts the rows that are sealed under a key older than version.
func (r *rotating) below(t *testing.T, version int) int {
	t.Helper()
	tenant := storage.ID(r.id)
	_, n, err := r.store.ListTokens(t.Context(), storage.TokenFilter{Tenant: tenant, Where: storage.KeyBelow(version), Limit: 1, Count: true})
	must.Do(t, err)
	recs, _, err := r.store.ListRecords(t.Context(), storage.RecordFilter{Tenant: tenant, Limit: 100})
	must.Do(t, err)
	for _, rec := range recs {
		if rec.Kind != "ring" && rec.KeyVersion < version { // a ring is wrapped under the master key
			n++
		}
	}
	claims := must.Get(r.store.SealedRows(t.Context(), storage.SealedFilter{Tenant: tenant, Kind: storage.SealedClaims, Limit: 100}))(t)
	for _, claim := range claims {
		if claim.KeyVersion < version {
			n++
		}
	}
	return n
}

// Keys are replaced while readers and writers on two nodes continue, after an
// interrupted rotation, and the old key is destroyed.
func TestRotateKeysWhileTheVaultServes(t *testing.T) {
	t.Parallel()
	r := newRotating(t)
	tokens := map[string]string{}
	for i := range 250 { // more than one batch
		tok := given.Create(t, r.c, vault.TokenParams{ID: fmt.Sprintf("tok%d", i), Type: vault.TypeGeneric, Data: i, SearchIndexes: []string{"index"}})
		tokens[tok.ID] = tok.Fingerprint
	}
	given.Create(t, r.c, vault.TokenParams{ID: "card", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, CVC: "987"}})
	app := must.Get(r.c.CreateApplication(t.Context(), vault.ApplicationParams{Name: "x", Type: vault.ApplicationPrivate, Permissions: given.Everything}))(t)
	var runs atomic.Int32
	onceKey := vault.IdempotencyKey{Key: "before"}
	replays(t, "the first", false)(r.c.Once(t.Context(), onceKey, creating(&runs, generic)))
	given.Same(t, "version at first", r.ring(t).Version(), 1)

	// The first attempt is interrupted after its first batch.
	cut, cancel := context.WithCancel(t.Context())
	err := r.vaults[0].RotateDataKeys(cut, r.id, &vault.RotateOptions{Progress: func(int, int) { cancel() }})
	must.Match(t, "a rotation that is cut off", err, context.Canceled)
	given.Same(t, "version after the cut", r.ring(t).Version(), 2)
	if !r.ring(t).Retired() || r.below(t, 2) == 0 {
		t.Error("the interruption came too late to prove anything")
	}
	given.Get(t, r.c, "tok0")

	// The second attempt continues where the first stopped, during reads and
	// writes.
	r.clock.Advance(time.Minute)
	stop := make(chan struct{})
	var wg, busy sync.WaitGroup
	busy.Add(len(r.vaults))
	for n, v := range r.vaults {
		c := v.Tenant(r.id)
		wg.Go(func() {
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-pace.C:
				}
				at := 50 + i%200 // the first attempt stopped here; the second does the rest
				id := fmt.Sprintf("tok%d", at)
				given.WantData(t, "data", given.Get(t, c.Client, id).Data, fmt.Sprint(at))
				given.Update(t, c.Client, id, `{"metadata":{"k":"v"}}`)
				given.Create(t, c.Client, vault.TokenParams{ID: fmt.Sprintf("new-%d-%d", n, i), Type: vault.TypeGeneric, Data: "new"})
				must.Match(t, "authenticate", must.Err(v.Authenticate(t.Context(), app.Key)), nil)
				if i == 0 {
					busy.Done()
				}
			}
		})
	}
	busy.Wait()
	var done []int
	began := time.Now()
	err = r.vaults[1].RotateDataKeys(t.Context(), r.id, &vault.RotateOptions{Progress: func(n, _ int) { done = append(done, n) }})
	close(stop)
	wg.Wait()
	must.Do(t, err)
	if took := time.Since(began); long.Run && took < 10*time.Second {
		t.Errorf("the old key was destroyed after %s, while nodes may use it for ten", took)
	}
	if len(done) == 0 || done[len(done)-1] < 50 {
		t.Errorf("progress is %v", done)
	}

	ring := r.ring(t)
	given.Same(t, "version", ring.Version(), 2) // no third key for the second attempt
	given.Same(t, "a retired key is left", ring.Retired(), false)
	given.Same(t, "rows under the old key", r.below(t, 2), 0)
	location := seal.Location{}
	must.Match(t, "the old key", must.Err(ring.Open(&location, 1, []byte("anything"))), seal.ErrNoKey)
	for _, v := range r.vaults {
		c := v.Tenant(r.id)
		for id, fingerprint := range tokens {
			given.Same(t, "fingerprint of "+id, given.Get(t, c.Client, id).Fingerprint, fingerprint)
		}
		given.WantData(t, "card", given.Get(t, c.Client, "card").Data, `{"number":"4242424242424242","cvc":"987"}`)
		page := must.Get(c.SearchTokens(t.Context(), vault.SearchTokensParams{Query: "data:index"}))(t)
		given.Same(t, "search finds", page.Pagination.TotalItems, 250)
		replays(t, "an earlier response", true)(c.Client.Once(t.Context(), onceKey, creating(&runs, generic)))
		given.Authenticated(t, v, app.Key)
	}
	given.Same(t, "log", given.Messages(t, r.c, vault.ListLogsParams{EntityType: "tenant"}),
		[]string{"Tenant created", "Data key 2 made pending", "Data key 2 made primary", "Data keys before 2 destroyed"})
}

func TestRotateKeysOfAMissingTenant(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	must.Match(t, "rotate", v.RotateDataKeys(t.Context(), uuid.New(), nil), vault.ErrNotFound)
}

// tampered is a database that an attacker can write to.
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
	s := &tampered{Storage: given.SQLite(t, ":memory:")}
	return vaulttest.OpenStorage(t, s, nil), s
}

// A row whose columns were changed does not open. So an attacker cannot read a
// token by moving it to a laxer container, or keep it by moving its expiry.
func TestChangedRowsDoNotOpen(t *testing.T) {
	t.Parallel()
	v, store := tamper(t)
	ends := vaulttest.Start.Add(time.Hour)
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "strict", Type: vault.TypeCard, Data: vault.CardData{Number: given.Visa, CVC: "987"}, Containers: []string{"/strict/"}, ExpiresAt: ends})
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "other", Type: vault.TypeCard, Data: vault.CardData{Number: given.Mastercard}, Containers: []string{"/strict/"}, ExpiresAt: ends})
	other := must.Get(store.Storage.Tokens(t.Context(), storage.ID(v.Acme.ID), []string{"other"}))(t)
	c := given.Private(t, v, given.Rule(1, "/lax/", vault.TransformReveal, given.Everything...), given.Rule(2, "/strict/", vault.TransformReveal, given.Everything...))
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
		_, err := c.GetToken(t.Context(), "strict")
		must.Match(t, name+" changed", err, must.Text("of token strict: seal: "))
		given.WantSilent(t, err, given.Visa, given.Mastercard)
		must.Match(t, name+" changed: the token can be used", must.Err(c.Detokenize(t.Context(), vault.JSON(`"{{ strict }}"`))), must.Text("of token strict: seal: "))
	}
	store.tokens = nil
	given.Get(t, c, "strict")
}

// Rights are sealed under the key that they belong to. Writing another key's hash
// beside them does not give that key the rights.
func TestRightsCannotBeMovedToAnotherKey(t *testing.T) {
	t.Parallel()
	v, store := tamper(t)
	strong := must.Get(store.Storage.Lookup(t.Context(), sha256.Sum256([]byte(v.PrivateKey))))(t)
	weak := storage.Key(sha256.Sum256([]byte(v.PublicKey)))
	weakRecord := must.Get(store.Storage.Lookup(t.Context(), weak))(t)
	if err := v.Owner.DeleteApplication(t.Context(), v.Management.ApplicationID()); err != nil { // forgets what is cached
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
			t.Errorf("%s: a client was accepted, with token:read: %v", name, c.HasPermission(t.Context(), "token:read") == nil)
		}
	}
	store.lookup = nil
	given.Authenticated(t, v.Vault, v.PublicKey)
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
			_, err := v.Owner.GetTenant(t.Context()) // reads it again
			given.WantSilent(t, err, "Acme")
		})
	}
}

// The database sees only sealed or hashed values, and no entry of the log holds one.
func TestStorageSeesNoValues(t *testing.T) {
	t.Parallel()
	v, store := given.Spied(t)
	secrets := []string{given.Visa, given.Mastercard, "s3cr3t", "m3tadata", "keyname", "ind3x"}
	see := func(where string, parts ...[]byte) {
		for _, part := range parts {
			for _, s := range secrets {
				must.Lack(t, where, string(part), s)
			}
		}
	}
	store.Before = func(call string, ch *storage.Change) error {
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
			for _, part := range []string{"987", "4242"} {
				must.Lack(t, "a log entry", e.Message+e.EntityType+e.Operation, part)
			}
		}
		return nil
	}
	given.Tokenize(t, v.Owner.Client, `["s3cr3t",{"id":"card","type":"card","data":{"number":"4242424242424242","cvc":"987"},"metadata":{"keyname":"m3tadata"},"mask":{"x":"s3cr3t"},"search_indexes":["ind3x"]}]`)
	given.Update(t, v.Private, "card", `{"data":{"number":"`+given.Mastercard+`"}}`)
	given.Detokenize(t, v.Private, `"{{ card }}"`)
	must.Get(v.Owner.CreateReactor(t.Context(), vault.ReactorParams{Name: "r", Code: "module.exports = async () => 's3cr3t'", Configuration: map[string]string{"keyname": "s3cr3t"}}))(t)
	must.Get(v.Owner.CreateProxy(t.Context(), vault.ProxyParams{Name: "p", DestinationURL: "https://example.com/s3cr3t", Configuration: map[string]string{"keyname": "s3cr3t"}}))(t)
}

// kmsKey is a master key in a service. It can be called only with a context, and
// waits while the service is slow.
type kmsKey struct {
	*vault.Key
	slow  atomic.Pointer[context.CancelFunc] // cancels the waiting caller; set while the service is slow
	calls atomic.Int32
}

func (k *kmsKey) wait(ctx context.Context) error {
	k.calls.Add(1)
	if leave := k.slow.Load(); leave != nil {
		(*leave)()
		<-ctx.Done()
	}
	return ctx.Err()
}

func (k *kmsKey) EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	if err := k.wait(ctx); err != nil {
		return nil, err
	}
	return k.Encrypt(plaintext, associatedData)
}

func (k *kmsKey) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	if err := k.wait(ctx); err != nil {
		return nil, err
	}
	return k.Decrypt(ciphertext, associatedData)
}

// onlyContext hides the methods without a context.
type onlyContext struct{ vault.AEADWithContext }

// A master key with a context gets the context of the operation, alone and among
// others, so that a slow KMS delays a caller no longer than the caller waits.
func TestMasterKeyWithContext(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*kmsKey) vault.AEAD{
		"both kinds of methods": func(k *kmsKey) vault.AEAD { return k },
		"only with a context":   func(k *kmsKey) vault.AEAD { return vault.KeyWithContext(onlyContext{k}) },
		"among several": func(k *kmsKey) vault.AEAD {
			return vault.JoinKeys(vault.KeyWithContext(onlyContext{k}), vault.NewKey())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, path := &kmsKey{Key: vault.NewKey()}, filepath.Join(t.TempDir(), "vault.db")
			open := func(ctx context.Context) (*vault.Vault, error) {
				return vault.Open(ctx, given.SQLite(t, path), wrap(key), &vault.Config{SweepEvery: -1, WorkEvery: -1})
			}
			v := must.Get(open(t.Context()))(t)
			t.Cleanup(func() { v.Close() })
			tenant, err := v.CreateTenant(t.Context(), "Acme")
			if err != nil || key.calls.Load() == 0 {
				t.Fatalf("%v after %d calls of the key", err, key.calls.Load())
			}
			impatient := func() context.Context {
				ctx, leave := context.WithCancel(t.Context())
				key.slow.Store(&leave)
				return ctx
			}
			must.Match(t, "a change of the key", v.RewrapDataKeys(impatient()), context.Canceled)
			_, err = open(impatient())
			must.Match(t, "opening", err, context.Canceled)
			if errors.Is(err, vault.ErrWrongKey) {
				t.Error("a slow key is reported as wrong")
			}
			key.slow.Store(nil)
			again := must.Get(open(t.Context()))(t)
			t.Cleanup(func() { again.Close() })
			must.Match(t, "reading", must.Err(again.Tenant(tenant.ID).GetTenant(t.Context())), nil)
		})
	}
}

// rotations counts the log entries of destroyed keys of a tenant.
func rotations(t *testing.T, c *vault.Owner) int {
	t.Helper()
	return strings.Count(strings.Join(given.Messages(t, c.Client, vault.ListLogsParams{EntityType: "tenant"}), "\n"), "destroyed")
}

// TestRotateAllDataKeys rotates the keys of all tenants, stops in the middle, and
// continues. Each tenant gets one new key.
func TestRotateAllDataKeys(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	ctx := t.Context()
	owners := []*vault.Owner{v.Owner}
	for i := range 11 {
		tenant := must.Get(v.CreateTenant(ctx, fmt.Sprint("Tenant ", i)))(t)
		owners = append(owners, v.Tenant(tenant.ID))
	}
	for _, c := range owners {
		must.Get(c.CreateToken(ctx, vault.TokenParams{ID: "tok", Type: vault.TypeGeneric, Data: "secret"}))(t)
	}
	v.Clock.Advance(time.Minute)
	begun := v.Clock.Now()
	v.Clock.Advance(time.Minute)
	rows, tenants := 0, 0
	opts := &vault.RotateOptions{OlderThan: begun, User: "jane", Progress: func(r, n int) {
		if r < rows || n < tenants {
			t.Errorf("the progress went from %d rows and %d tenants to %d and %d", rows, tenants, r, n)
		}
		rows, tenants = r, n
	}}
	if err := v.RotateDataKeys(ctx, owners[3].TenantID(), nil); err != nil { // as if an interrupted rotation of all had rotated this tenant
		t.Fatal(err)
	}
	must.Do(t, v.RotateAllDataKeys(ctx, opts))
	if tenants != len(owners)-1 || rows < len(owners)-1 {
		t.Errorf("in the end: %d tenants and %d rows", tenants, rows)
	}
	must.Do(t, v.RotateAllDataKeys(ctx, opts))
	for i, c := range owners {
		given.Same(t, fmt.Sprintf("tenant %d", i), rotations(t, c), 1)
		given.Same(t, fmt.Sprintf("tenant %d", i), string(must.Get(c.GetToken(ctx, "tok"))(t).Data), `"secret"`)
	}
	must.Do(t, v.RotateAllDataKeys(ctx, nil))
	given.Same(t, "rotations", rotations(t, owners[0]), 2)
}

// TestRotateAllDataKeysWithoutATenant skips a deleted tenant, and ends with the
// context.
func TestRotateAllDataKeysWithoutATenant(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	gone := must.Get(v.CreateTenant(t.Context(), "Gone"))(t)
	must.Do(t, v.DeleteTenant(t.Context(), gone.ID))
	must.Do(t, v.RotateAllDataKeys(t.Context(), nil))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	must.Match(t, "after the end", v.RotateAllDataKeys(ended, nil), ended.Err())
}
