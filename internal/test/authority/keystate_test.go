package authority_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// remoteKey is a master key whose holder can deny its use.
type remoteKey struct {
	vault.AEAD
	answer atomic.Pointer[error] // nil or to nil: it may be used
	asked  atomic.Int64
}

func (k *remoteKey) set(err error) { k.answer.Store(&err) }

func (k *remoteKey) err() error {
	if err := k.answer.Load(); err != nil {
		return *err
	}
	return nil
}

func (k *remoteKey) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	if err := k.err(); err != nil {
		return nil, err
	}
	return k.AEAD.Encrypt(plaintext, associatedData)
}

func (k *remoteKey) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	k.asked.Add(1)
	if err := k.err(); err != nil {
		return nil, err
	}
	return k.AEAD.Decrypt(ciphertext, associatedData)
}

// Two nodes stop serving when their master key is denied, and serve again when it
// is back. The logs have one entry for each change, which the evidence covers, and
// tokens that expired during the denial are deleted.
func TestMasterKeyIsTakenAway(t *testing.T) {
	t.Parallel()
	key, clock := &remoteKey{AEAD: vault.NewKey()}, vaulttest.NewClock(vaulttest.Start)
	path := filepath.Join(t.TempDir(), "vault.db")
	open := func() *vault.Vault {
		return given.Open(t, given.SQLite(t, path), key, vault.Config{
			Now: clock.Now, KeyAge: 20 * time.Millisecond, KeyGrace: time.Hour, SweepEvery: time.Hour,
			Evidence: &vault.EvidenceConfig{Every: -1},
		})
	}
	nodes := []*vault.Vault{open(), open()}
	tenant := given.TenantOf(t, nodes[0]).TenantID()
	short := given.Create(t, nodes[0].Tenant(tenant).Client, vault.TokenParams{Type: vault.TypeGeneric, Data: "x", ExpiresAt: clock.Now().Add(time.Minute)})
	call := func(v *vault.Vault) error {
		return must.Err(v.Tenant(tenant).ListTokens(t.Context(), vault.ListTokensParams{}))
	}
	key.set(fmt.Errorf("kms: the key is disabled: %w", vault.ErrKeyDenied))
	for _, v := range nodes {
		given.Eventually(t, "calls fail", func() bool { return errors.Is(call(v), vault.ErrKeyDenied) })
	}
	must.Match(t, "a new tenant", must.Err(nodes[0].CreateTenant(t.Context(), "Other")), vault.ErrKeyDenied)
	clock.Advance(time.Hour)
	key.set(nil)
	for _, v := range nodes {
		given.Eventually(t, "calls succeed", func() bool { return call(v) == nil })
	}
	want := []string{"Key denied", "Key available again; unavailable since " + vaulttest.Start.UTC().Format(time.RFC3339)}
	given.Eventually(t, "the return is in the log", func() bool { return len(keyEntries(t, nodes[1], tenant)) == len(want) })
	given.Same(t, "messages", keyEntries(t, nodes[1], tenant), want)
	expired, err := nodes[1].Tenant(tenant).ListLogs(t.Context(), vault.ListLogsParams{EntityID: short.ID, Operation: vault.OperationExpire})
	if err != nil || len(expired.Data) != 1 {
		t.Errorf("the entry of the expired token: %v, %v", expired, err)
	}
	must.Get(nodes[0].Checkpoint(t.Context()))(t)
	given.Intact(t, "verification")(nodes[0].VerifyLogs(t.Context(), nil))
	nodes[0].Close()
	open() // it finds nothing to enter
	given.Same(t, "messages after a restart", keyEntries(t, nodes[1], tenant), want)
}

// keyEntries returns the messages of the entries about the key, oldest first and
// without revisions.
func keyEntries(t *testing.T, v *vault.Vault, tenant uuid.UUID) []string {
	t.Helper()
	about := vault.ListLogsParams{EntityType: "tenant", EntityID: tenant.String(), Operation: vault.OperationKey}
	all := given.Messages(t, v.Tenant(tenant).Client, about)
	for i := range all {
		all[i], _, _ = strings.Cut(all[i], " (revision")
	}
	return all
}

// While the master key is denied, no job is tried, although it is due. It is tried
// as soon as the key is back, so it was not put off.
func TestJobsPauseWithoutTheKey(t *testing.T) {
	t.Parallel()
	key, clock, hook := &remoteKey{AEAD: vault.NewKey()}, vaulttest.NewClock(vaulttest.Start), given.NewReceiver(t)
	v := given.Open(t, given.SQLite(t, filepath.Join(t.TempDir(), "vault.db")), key, vault.Config{
		Now: clock.Now, KeyAge: 20 * time.Millisecond, KeyGrace: time.Hour, WorkEvery: 10 * time.Millisecond,
		Egress:  vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
		Runtime: given.Runtime(func(context.Context, map[string]any, script.Host) (any, error) { return nil, nil }),
	})
	c := given.TenantOf(t, v)
	reactor := must.Get(c.CreateReactor(t.Context(), vault.ReactorParams{Name: "charge", Code: "code", Configuration: map[string]string{"KEY": "sk"}}))(t)
	hook.Answer(http.StatusInternalServerError)
	must.Get(c.ReactAsync(t.Context(), reactor.ID, vault.ReactParams{CallbackURL: hook.URL}))(t)
	given.Eventually(t, "the callback fails", func() bool { return hook.Count() == 1 })
	key.set(fmt.Errorf("kms: the key is disabled: %w", vault.ErrKeyDenied))
	given.Eventually(t, "calls fail", func() bool {
		_, err := c.ListTokens(t.Context(), vault.ListTokensParams{})
		return errors.Is(err, vault.ErrKeyDenied)
	})
	clock.Advance(48 * time.Hour)
	asked := key.asked.Load()
	given.Eventually(t, "the key is asked again and again", func() bool { return key.asked.Load() > asked+20 })
	given.Same(t, "callbacks", hook.Count(), 1)
	key.set(nil)
	given.Eventually(t, "the job is tried again", func() bool { return hook.Count() == 2 })
}

// While a tenant's key is denied, its transfers are refused, its jobs and entries wait,
// and nothing else is held up. Afterwards all of it is done.
func TestWorkOfADeniedTenantWaits(t *testing.T) {
	t.Parallel()
	o, hook, sink := newOwned(t), given.NewReceiver(t), filepath.Join(t.TempDir(), "log")
	o.change = func(c *vault.Config) {
		c.WorkEvery = 10 * time.Millisecond
		c.Egress = vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true}
		c.Runtime = given.Runtime(func(context.Context, map[string]any, script.Host) (any, error) { return nil, nil })
		c.Sinks = []vault.Sink{{Name: "file", Sender: vault.LogFile(sink)}}
	}
	v := o.node(t)
	c, other := given.TenantOf(t, v), given.TenantOf(t, v)
	tok := given.Create(t, c, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"})
	reactor := must.Get(c.CreateReactor(t.Context(), vault.ReactorParams{Name: "charge", Code: "code"}))(t)
	must.Do(t, v.SetTenantKey(t.Context(), c.TenantID(), ownURI))
	hook.Answer(http.StatusInternalServerError)
	must.Get(c.ReactAsync(t.Context(), reactor.ID, vault.ReactParams{CallbackURL: hook.URL}))(t)
	given.Eventually(t, "the callback fails", func() bool { return hook.Count() == 1 })
	transfer := func(want error) {
		t.Helper()
		for _, err := range c.Export(t.Context(), nil) {
			must.Match(t, "an export", err, want)
		}
		rows := func(yield func(vault.TokenParams, error) bool) {
			yield(vault.TokenParams{Type: vault.TypeGeneric, Data: "imported"}, nil)
		}
		for r, err := range c.Import(t.Context(), rows, nil) {
			must.Match(t, "an import", cmp.Or(err, r.Err), want)
		}
	}
	sent := func(text string) bool {
		log, _ := os.ReadFile(sink)
		return strings.Contains(string(log), text)
	}
	transfer(nil)
	o.keys[ownURI].set(errDenied)
	given.Eventually(t, "calls fail", func() bool { return errors.Is(reads(t, v, c.TenantID(), tok.ID), vault.ErrKeyDenied) })
	transfer(vault.ErrKeyDenied)
	o.clock.Advance(48 * time.Hour)
	given.Eventually(t, "the denial is in the log", func() bool { return len(keyEntries(t, v, c.TenantID())) == 2 })
	given.Create(t, other, vault.TokenParams{ID: "of-the-other", Type: vault.TypeGeneric, Data: "x"})
	given.Eventually(t, "entries of the other tenant are sent", func() bool { return sent("of-the-other") })
	if sum, err := v.Totals(t.Context(), 10); err != nil || sum.Tenants != 2 || sum.Tokens != 3 {
		t.Errorf("totals: %+v, %v", sum, err)
	}
	err := v.RotateAllDataKeys(t.Context(), nil)
	must.Match(t, "the rotation of all keys", err, vault.ErrKeyDenied)
	if stats, err := v.Tenant(other.TenantID()).Stats(t.Context()); err != nil || stats.RotatedAt.IsZero() {
		t.Errorf("the other tenant: %+v, %v", stats, err)
	}
	if hook.Count() != 1 || sent("Key denied") {
		t.Errorf("%d callbacks, and the entry of the denial is sent: %v", hook.Count(), sent("Key denied"))
	}
	o.keys[ownURI].set(nil)
	given.Eventually(t, "the job is tried again", func() bool { o.clock.Advance(time.Minute); return hook.Count() > 1 })
	transfer(nil)
	if err := v.SendLogs(t.Context()); err != nil || !sent("Key denied") {
		t.Errorf("the entry of the denial is sent: %v, %v", sent("Key denied"), err)
	}
}
