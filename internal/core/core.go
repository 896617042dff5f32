// Package core runs one operation, from its start to its write.
//
// An operation is an [Op]. It knows its caller ([Identity]), the unit of work
// ([Unit]), the keys of the tenant, and its start time. A feature is a
// package with functions that take an Op. Only [Do] makes an Op for a caller. A
// [Verb] describes the checks of Do.
//
// It promises that an operation begins with the rights that the caller has now; that a
// change is written completely with its log entries, or not at all; that nothing is
// written under keys that may have been replaced; and that a record raises an
// alarm, and is not used, if it does not open or if this node has seen a newer revision.
//
// It rests on the storage for changes, on package keyring for keys that are at most some
// seconds old, and on package seal for the bytes. Package access decides about tokens,
// and package admission about memory and CPUs.
//
// Begin with [Do] in verb.go and the list of verbs in verbs.go, then read op.go from
// begin to Write. Callers are found in authenticate.go, credential.go (API keys) and
// workload.go (JWTs). The places where a change can go are in unit.go: the vault's own
// commit, a transaction of the program, or a response under an idempotency key.
package core

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Config holds the dependencies of operations. All fields except Observe,
// OpenKey and VerifyJWT are required.
type Config struct {
	Store storage.Storage
	// Root wraps the rings of tenants: see [keyring.Root].
	Root   seal.AEAD
	Clock  func() time.Time
	Logger *slog.Logger
	// Mac returns the keyed hash of a log entry under the ring of its tenant, or, if
	// own is set, under the ring of the vault.
	Mac func(ring *seal.Ring, tenant uuid.UUID, own bool, entry storage.Log) storage.Hash

	// VerifyJWT verifies the JWT of a workload; nil if there are no issuers. MustClaims
	// returns the claims of which an identity of an issuer names at least one, and
	// whether there is such an issuer.
	VerifyJWT  func(ctx context.Context, jwt string) (claims map[string]any, err error)
	MustClaims func(issuer string) ([]string, bool)

	// OpenKey opens a tenant's own key; nil if the program has no such function.
	OpenKey func(ctx context.Context, uri string) (seal.AEAD, error)
	// KeyAge and KeyGrace limit the use of tenants' own keys without a check: see
	// [keyring.WatchConfig].
	KeyAge, KeyGrace time.Duration
	// ReadAge is how long the keys and the document of a tenant are used before
	// they are read again.
	ReadAge time.Duration
	// StrictReadLogs makes log entries of reads as durable as log entries of writes.
	StrictReadLogs bool
	// FullAudit enters denied calls in the log.
	FullAudit bool
	// AllowPrivate means that the egress policy allows private addresses. Rules may
	// then name addresses of loopback as destinations, and http is permitted.
	AllowPrivate bool

	MaxBytes     int   // of the JSON of one call
	MaxTokens    int   // that one call makes
	MaxPageBytes int   // sealed bytes that one call reads
	MaxMemory    int64 // that all requests hold together

	// Observe is called when work begins. It returns the context of the work, and a
	// function that is called with the result. Nil turns observation off.
	Observe func(context.Context, Event) (context.Context, func(error))
}

// Vault is the state that all operations of an open vault share.
type Vault struct {
	Config

	// Tenants caches the keys and documents of tenants.
	Tenants *keyring.Cache[Tenant]
	// Key watches the master key; nil if the vault holds the key itself. It is set
	// before the first operation.
	Key *keyring.Watch
	// Own has the tenants' own keys.
	Own *keyring.OwnKeys
	// WaitUntil waits for a time on the real clock: [pace.Until].
	WaitUntil func(context.Context, time.Time) error
	// Admission manages the memory and the CPUs that requests share.
	Admission *admission.Process
	// Skew is the difference between this clock and the database's.
	Skew Skew
	// Ledger keeps the trees over the log; nil without evidence. It is set before
	// the first operation.
	Ledger Ledger

	node   uuid.UUID // of this process
	opened time.Time // when this process has opened the vault
	outage keyOutage // of the master key

	ownSeen ownKeysSeen

	ids  ids.Source
	auth *Cache[storage.Key, *principal]
	apps *Cache[appKey, *principal]
	txs  txWorks

	revisions revisions
	denials   denials
	pings     pings
	keyUses   keyUses
	workloads workloads
	closed    atomic.Bool
}

// New returns a Vault for a configuration.
func New(cfg Config) *Vault {
	v := &Vault{
		Config: cfg, Admission: admission.New(cfg.MaxMemory), WaitUntil: pace.Until, node: uuid.New(),
		auth: NewCache[storage.Key]((*principal).size), apps: NewCache[appKey]((*principal).size),
	}
	v.opened = v.Now()
	v.Own = keyring.NewOwnKeys(keyring.OwnConfig{
		Open: v.OpenKey, Age: v.KeyAge, Grace: v.KeyGrace, Now: v.Now, Logger: v.Logger,
		Drop: func(tenants []uuid.UUID) { v.Tenants.DropKeys(tenants) }, Changed: v.ownKeyChanged,
	})
	v.Tenants = v.newTenants()
	return v
}

// Now returns the time of the vault's clock, with the precision of the database.
func (v *Vault) Now() time.Time { return time.UnixMicro(v.Clock().UnixMicro()).UTC() }

// NewID returns an id that sorts by the given time.
func (v *Vault) NewID(at time.Time) uuid.UUID { return v.ids.At(at) }

// Close makes all later operations fail with ErrClosed.
func (v *Vault) Close() {
	ctx, done := context.WithTimeout(context.Background(), closeUses)
	defer done()
	v.WriteUses(ctx)
	v.closed.Store(true)
	v.Own.Close()
}

// Alive returns ErrClosed once the vault is closed.
func (v *Vault) Alive() error {
	if v.closed.Load() {
		return fault.ErrClosed
	}
	return nil
}

// System returns an operation of the vault itself for a tenant, without keys.
func (v *Vault) System(tenant storage.ID) *Op {
	return &Op{Caller: v.Owner(uuid.UUID(tenant)), Now: v.Now()}
}

// Owner returns the tenant itself as a caller.
func (v *Vault) Owner(tenant uuid.UUID) Caller {
	return Caller{Vault: v, Identity: Owner(tenant)}
}

// Caller is an identity that requests operations, and their unit of work.
type Caller struct {
	Vault *Vault
	Identity
	Unit
	readNow *State // keys for the next operation; nil if it must read them
}

// Under returns the caller for one operation under keys of the tenant that have
// just been read.
func (c Caller) Under(keys *State) Caller {
	c.readNow = keys
	return c
}

// At returns a caller with another identity in the same unit of work.
func (c Caller) At(other Identity) Caller {
	c.Identity = other
	return c
}
