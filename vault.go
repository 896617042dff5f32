// Package vault keeps sensitive values and gives out tokens in their place.
//
// A program opens a vault on a database and works in it as a tenant:
//
//	store, err := sqlite.Open(ctx, "vault.db")
//	v, err := vault.Open(ctx, store, key, nil)
//	defer v.Close()
//	acme, err := v.CreateTenant(ctx, "Acme")
//	c := v.Tenant(acme.ID)
//	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242"}})
//
// A [Client] is an identity: the tenant itself, one of its applications, or a
// session. Every operation is a method of a Client, checks its permission, and
// writes its entry to the audit log. [Vault.Authenticate] turns an API key into
// a Client; package httpserver puts the same operations behind REST.
//
// # Guarantees
//
//   - A write that returned nil is on disk together with its log entry; a write
//     that returned an error left nothing, unless the error says that this is not
//     known, because the connection to the database was lost for too long.
//   - A value exists in clear only in the memory of this process, for the
//     length of a call. The database holds ciphertext and keyed hashes; errors
//     and log lines hold names and rules.
//   - A tenant's data is sealed under keys of its own, and no operation of a
//     Client reads or changes another tenant's rows. What spans tenants is the
//     vault's own work (sweeps, the search for due jobs, the look-up of API and
//     proxy keys by their hash) and the methods of Vault.
//   - Several processes may open one database; nothing depends on a lock held
//     in one of them.
//
// The methods of Vault and Client are safe for concurrent use.
//
// # Printing
//
// Types that hold data, keys, secrets or configuration have the methods Format and
// LogValue. With fmt, whatever the verb, and with slog they show names and ids
// alone; so they do in a slice, in a map, and in an exported field of a struct. A
// value that ends up in a log or an error by mistake leaks nothing.
//
// In two places they are shown in full: as JSON, which is also how the JSON handler
// of slog writes a slice, a map or a struct that holds them, and in an unexported
// field of a struct that is printed, because fmt calls no methods there.
package vault

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/evident"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/logs"
	"github.com/seed-72ea4aab/vault/internal/once"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/sinks"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
)

// Storage is the database that a vault is opened on: storage/sqlite,
// storage/postgres, or one's own.
type Storage = storage.Storage

// Runtime runs the code of tenants: jsruntime, which keeps it in processes of
// its own, or one's own.
type Runtime = script.Runtime

// Config adjusts a vault. The zero value is safe and complete.
type Config struct {
	// Now is the clock that decides what has expired. Default time.Now.
	Now func() time.Time

	// SweepEvery is the time between sweeps, which delete what has expired.
	// Default 5 minutes. A negative value means that the program calls
	// [Vault.Sweep] itself.
	SweepEvery time.Duration

	// StrictReadLogs makes log entries of reads as durable as those of writes.
	// By default they survive a crash of the process. A power loss, and on
	// PostgreSQL also a crash of the database server, may take those of the last
	// second, although the reads were answered.
	StrictReadLogs bool

	// FullAudit also enters in the log: calls that end in ErrForbidden, as
	// OperationDenied; each row that an import refuses; reads of the log, with the
	// entity type "log"; and in every tenant's log, the start and the stop of this
	// vault. Of the same denied calls of an application within a second, one entry
	// reports the number.
	FullAudit bool

	// LogRetention is how long entries of the audit log are kept: a sweep deletes
	// those of every tenant that are older, and no entry tells of it. Zero, the
	// default, keeps them for as long as there is the tenant. The shortest is 24
	// hours.
	LogRetention time.Duration

	// Sinks are the destinations that the audit log is sent to. A request never
	// waits for them. All nodes should have the same.
	Sinks []Sink

	// SinkGrace is how long a sweep keeps entries beyond LogRetention that a sink
	// has not taken. After it they are deleted, and Logger gets an error. Default 7
	// days; a negative value means that retention does not wait.
	SinkGrace time.Duration

	// MaxSessionLife bounds how far in the future AuthorizeSession may set the end
	// of a session. Zero, the default, sets no bound.
	MaxSessionLife time.Duration

	// MaxBytes bounds the JSON of one call. Default 5 MiB.
	MaxBytes int

	// MaxTokens bounds how many tokens one Tokenize makes. Default 20,000.
	MaxTokens int

	// MaxPageBytes bounds the sealed bytes that the items of one page of a list
	// or search hold, or the tokens that one request names in expressions, and so
	// the memory that it takes. A single item is never refused. Default 64 MiB.
	MaxPageBytes int

	// MaxMemory bounds what requests hold in memory together, in bytes: parsed
	// JSON, and the rows of pages. One tenant has half of it. A request waits two
	// seconds for room and then fails with ErrUnavailable. Default 1 GiB. The
	// collector may let the process grow to twice as much; GOMEMLIMIT bounds that.
	MaxMemory int64

	// Runtime runs the code of reactors and proxy transforms, and checks it when
	// it is written. Without one, code is stored unchecked and cannot run. The
	// vault closes it.
	Runtime Runtime

	// Egress says where proxies, callbacks and code may connect to. The zero
	// value allows https to public addresses.
	Egress EgressPolicy

	// ProxyTimeout is how long the destination of a proxy may take to begin its
	// answer, and between one piece of the answer and the next. Default 25
	// seconds.
	ProxyTimeout time.Duration

	// WorkEvery is the time between looks for jobs: asynchronous runs and their
	// callbacks. Default one second. A negative value means that this node works
	// on none, unless the program calls [Vault.Work].
	WorkEvery time.Duration

	// ScriptLog takes what tenant code writes to its console. The lines may hold
	// values, so they go nowhere else. It is called by many goroutines, and the
	// run waits for it; a panic in it is logged and ends nothing. Default:
	// they are dropped.
	ScriptLog func(ScriptLine)

	// Logger takes what goes wrong in the background. It never gets a value.
	// Default: nothing is logged.
	Logger *slog.Logger

	// Observer, if set, is told of operations of clients, runs of tenants' code,
	// jobs, sweeps, requests to destinations and calls of the master key.
	Observer Observer

	// Evidence, if set, makes every change of the audit log detectable. It needs a
	// storage that keeps trees, as those of this module do.
	Evidence *EvidenceConfig

	// KeyAge is the longest time that a node works with keys and settings it
	// has read before it reads them again. Default one second, at most ten. The
	// master key is asked only for keys that have changed since.
	KeyAge time.Duration
}

// Defaults and bounds of Config.
const (
	defaultSweepEvery = 5 * time.Minute
	defaultWorkEvery  = time.Second
	defaultProxyWait  = 25 * time.Second
	defaultMaxBytes   = 5 << 20
	defaultMaxTokens  = 20_000
	defaultMaxPage    = 64 << 20
	defaultKeyAge     = time.Second
	defaultMaxMemory  = 1 << 30
	defaultSinkGrace  = 7 * 24 * time.Hour
)

func (cfg *Config) withDefaults() (Config, error) {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.SweepEvery == 0 {
		c.SweepEvery = defaultSweepEvery
	}
	if c.WorkEvery == 0 {
		c.WorkEvery = defaultWorkEvery
	}
	if c.ProxyTimeout <= 0 {
		c.ProxyTimeout = defaultProxyWait
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = defaultMaxBytes
	}
	if c.MaxTokens <= 0 {
		c.MaxTokens = defaultMaxTokens
	}
	if c.MaxPageBytes <= 0 {
		c.MaxPageBytes = defaultMaxPage
	}
	if c.MaxMemory <= 0 {
		c.MaxMemory = defaultMaxMemory
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.KeyAge == 0 {
		c.KeyAge = defaultKeyAge
	}
	if c.SinkGrace == 0 {
		c.SinkGrace = defaultSinkGrace
	}
	if c.KeyAge < 0 || c.KeyAge > keyring.MaxAge {
		return c, fmt.Errorf("vault: Config.KeyAge must be between 0 and %s", keyring.MaxAge)
	}
	return c, checkLogRetention(c.LogRetention)
}

// minLogRetention is the shortest Config.LogRetention. The newest entries are
// also how a write that lost its connection finds out whether it was committed.
const minLogRetention = 24 * time.Hour

func checkLogRetention(d time.Duration) error {
	if d != 0 && d < minLogRetention {
		return fmt.Errorf("vault: Config.LogRetention is %s; it must be 0, which keeps the log forever, or at least %s", d, minLogRetention)
	}
	return nil
}

// Vault is an open vault. Get one from [Open].
type Vault struct {
	store  storage.Storage
	master AEAD
	cfg    Config

	core     *core.Vault
	egress   *egress.Client
	runs     *runs.Runs
	relay    *relay.Relay
	requests once.Requests

	followers *logs.Followers
	sinks     *sinks.Sinks
	evidence  *evident.Keeper // nil without Config.Evidence

	stop    context.CancelFunc
	done    sync.WaitGroup
	closing sync.Once
}

// Open opens a vault on a database under a master key. A new database is set
// up; one that was sealed under another master key is refused with
// ErrWrongKey, and a master key that does not work at the moment gives
// ErrKeyUnavailable. cfg may be nil.
//
// The vault owns the store and cfg.Runtime from then on: [Vault.Close] closes
// them, and so does Open when it fails.
func Open(ctx context.Context, store Storage, key AEAD, cfg *Config) (*Vault, error) {
	v, err := open(ctx, store, key, cfg)
	if err == nil {
		return v, nil
	}
	if cfg != nil && cfg.Runtime != nil {
		err = errors.Join(err, cfg.Runtime.Close())
	}
	if store != nil {
		err = errors.Join(err, store.Close())
	}
	return nil, err
}

func open(ctx context.Context, store Storage, key AEAD, cfg *Config) (*Vault, error) {
	if store == nil || key == nil {
		return nil, errors.New("vault: Open needs a store and a master key")
	}
	c, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	tell := teller(c.Observer)
	if tell != nil {
		key = observedKey{key, tell}
	}
	v := &Vault{store: store, master: key, cfg: c}
	v.core = core.New(core.Config{
		Store: store, Master: key, Clock: c.Now, Logger: c.Logger, KeyAge: c.KeyAge, StrictReadLogs: c.StrictReadLogs, FullAudit: c.FullAudit,
		MaxBytes: c.MaxBytes, MaxTokens: c.MaxTokens, MaxPageBytes: c.MaxPageBytes, MaxMemory: c.MaxMemory, Observe: tell,
	})
	v.egress = c.Egress.client(v.observeEgress())
	v.followers = logs.NewFollowers()
	v.runs = runs.New(runs.Config{Vault: v.core, Runtime: c.Runtime, Egress: v.egress, Operation: v.operation, Log: v.cfg.scriptLog()})
	v.relay = relay.New(relay.Config{Vault: v.core, Egress: v.egress, Runs: v.runs, Timeout: c.ProxyTimeout})
	check := keyring.Check{Store: store, Master: key, Now: v.core.Now}
	if err := check.Verify(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(v.openSinks(ctx), v.openEvidence(ctx)); err != nil {
		return nil, err
	}
	background, stop := context.WithCancel(context.Background())
	v.stop = stop
	if c.FullAudit {
		v.core.Audit(background, v.done.Go)
	}
	if v.evidence != nil {
		v.done.Go(func() { v.evidence.Run(background) })
	}
	if c.SweepEvery > 0 {
		v.done.Go(func() { v.sweepLoop(background) })
	}
	if clock, ok := store.(storage.Clock); ok && (cfg == nil || cfg.Now == nil) {
		v.core.Skew.Compare(ctx, clock, c.Logger)
		v.done.Go(func() { v.core.Skew.Watch(background, clock, c.Logger) })
	}
	if len(c.Sinks) > 0 {
		v.done.Go(func() { v.sinks.Loop(background) })
	}
	if c.WorkEvery > 0 {
		v.done.Go(func() { v.runs.Worker.Loop(background, c.WorkEvery) })
	}
	return v, nil
}

// ClockAhead returns how far the clock of this node is ahead of the database's, as
// of the last comparison, which Open and every minute make. It is zero on SQLite, and
// when Config.Now is set. Beyond 30 seconds, in either direction, the vault logs a
// warning and deletes nothing that has expired.
func (v *Vault) ClockAhead() time.Duration { return v.core.Skew.Ahead() }

// Close stops background work, waits for it, and closes the runtime and the
// store. Operations that come later fail with ErrClosed. Closing again does
// nothing.
func (v *Vault) Close() error {
	var err error
	v.closing.Do(func() {
		v.stop()
		v.done.Wait()
		if v.evidence != nil {
			v.evidence.Close()
		}
		v.core.Close()
		v.egress.Close()
		if v.cfg.Runtime != nil {
			err = v.cfg.Runtime.Close()
		}
		err = errors.Join(err, v.sinks.Close(), v.store.Close())
	})
	return err
}

// Ping reports whether the database answers and can be written. It is for probes:
// the database is asked at most once a second, however often Ping is called. A
// database that hangs is not waited for longer than the context allows.
func (v *Vault) Ping(ctx context.Context) error { return v.core.Ping(ctx) }

// EgressPolicy says where proxies, callbacks and the code of tenants may
// connect to. The zero value allows https with TLS 1.2 or later to public
// addresses, which are checked when they are dialed, so that a name which
// changes its address gains nothing.
type EgressPolicy struct {
	// AllowHTTP allows plain http.
	AllowHTTP bool
	// AllowPrivate allows every address: loopback and private ones too.
	AllowPrivate bool
	// AllowPrefixes allows some addresses that would be refused, and
	// DenyPrefixes refuses some that would be allowed. A refusal wins.
	AllowPrefixes, DenyPrefixes []netip.Prefix
	// Ports narrows the ports. Default: any.
	Ports []uint16
	// RootCAs are the authorities that certificates are checked against.
	// Default: those of the system.
	RootCAs *x509.CertPool
	// UseEnvironmentProxy heeds HTTPS_PROXY and the like. The proxy then
	// resolves names, so it has to be trusted with what this policy forbids.
	UseEnvironmentProxy bool
	// MaxConnsPerTenant bounds the requests of one tenant that are under way.
	// Default 100.
	MaxConnsPerTenant int
}

func (p *EgressPolicy) client(observe egress.Observe) *egress.Client {
	return egress.New(egress.Policy{
		AllowHTTP: p.AllowHTTP, AllowPrivate: p.AllowPrivate, AllowPrefixes: p.AllowPrefixes, DenyPrefixes: p.DenyPrefixes,
		Ports: p.Ports, RootCAs: p.RootCAs, UseEnvironmentProxy: p.UseEnvironmentProxy, MaxConnsPerTenant: p.MaxConnsPerTenant, Observe: observe,
	})
}
