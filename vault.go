// Package vault stores sensitive values and returns tokens in their place.
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
// session. Every operation is a method of Client. It checks the client's
// permissions and writes an entry to the audit log. [Vault.Authenticate] turns an
// API key into a Client; package httpserver serves the same operations over REST.
//
// # Guarantees
//
//   - When a write returns nil, it is on disk together with its log entry. When it
//     returns an error, nothing was written. The one exception is a lost database
//     connection that could not be replaced in time; the error then reports an
//     unknown outcome.
//   - Plaintext exists only in the memory of this process, for the duration of a
//     call. The database holds ciphertext and keyed hashes; errors and log lines
//     hold names and rules.
//   - Each tenant's data is sealed under its own keys, and no operation of a Client
//     reads or changes another tenant's rows. Only the methods of Vault and the
//     vault's background work span tenants: sweeps, the search for due jobs, and
//     the lookup of API and proxy keys by their hash.
//   - Several processes may open one database; nothing depends on a lock held in
//     one of them.
//
// The methods of Vault and Client are safe for concurrent use.
//
// # Printing
//
// Types that hold data, keys, secrets or configuration implement Format and
// LogValue. Printed with fmt, whatever the verb, or logged with slog, they show
// only names and ids. The same holds inside a slice, a map, or an exported struct
// field, so a value that is logged by mistake leaks nothing.
//
// There are four exceptions. JSON shows these types in full, and slog's JSON handler
// uses JSON for slices, maps and structs. An unexported struct field is printed in
// full, because fmt calls no methods there. Nor does it for %p, and for %w of what is
// no error; go vet reports both. [JSON] is the value itself. [Key] and [Secret] have no
// exceptions.
package vault

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/logs"
	"github.com/seed-72ea4aab/vault/internal/notary"
	"github.com/seed-72ea4aab/vault/internal/once"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/sinks"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/storage"
)

// Storage is the database that a vault is opened on. Packages storage/sqlite and
// storage/postgres provide implementations, and a program can bring its own.
type Storage = storage.Storage

// Runtime runs tenant code. Package jsruntime provides an implementation that uses
// separate processes, and a program can bring its own.
type Runtime = script.Runtime

// Config adjusts a vault. The zero value is safe and complete.
type Config struct {
	// Now is the clock that decides whether something has expired. Default
	// time.Now.
	Now func() time.Time

	// SweepEvery is the time between sweeps, which delete expired rows. Default 5
	// minutes. If it is negative, the program has to call [Vault.Sweep] itself.
	SweepEvery time.Duration

	// StrictReadLogs makes the log entries of reads as durable as the entries of
	// writes. By default the entries of reads survive a crash of the process. A
	// power loss, or on PostgreSQL a crash of the database server, may lose the
	// entries of the last second, although the reads succeeded.
	StrictReadLogs bool

	// FullAudit adds these entries to the log:
	//
	//   - calls that end in ErrForbidden, as OperationDenied. Identical denied calls of
	//     an application, or of a proxy without an API key, within a second share one
	//     entry, which reports their number;
	//   - each row that an import refuses;
	//   - reads of the log, with the entity type "log";
	//   - in every tenant's log, the start and stop of this vault.
	FullAudit bool

	// LogRetention is how long entries of the audit log are kept. A sweep deletes
	// older entries of every tenant, and the log does not record the deletion.
	// Zero, the default, keeps entries until the tenant is deleted. The minimum is
	// 24 hours.
	LogRetention time.Duration

	// Sinks are the destinations that the audit log is sent to. No request waits
	// for them. All nodes should have the same sinks.
	Sinks []Sink

	// SinkGrace is how long a sweep keeps entries beyond LogRetention that a sink
	// has not taken. After it they are deleted, and Logger gets an error. Default 7
	// days. If it is negative, retention does not wait for sinks.
	SinkGrace time.Duration

	// MaxSessionLife limits how far in the future AuthorizeSession may set the end
	// of a session. Zero, the default, means no limit.
	MaxSessionLife time.Duration

	// MaxBytes limits the JSON of one call. Default 5 MiB.
	MaxBytes int

	// MaxTokens limits how many tokens one Tokenize call creates. Default 20,000.
	MaxTokens int

	// MaxPageBytes limits the sealed bytes that one request reads, and so its
	// memory. It applies to one page of a list or search, and to the tokens that
	// one request names in expressions. A single item is never refused. Default 64
	// MiB.
	MaxPageBytes int

	// MaxMemory limits the memory that all requests together hold, in bytes: parsed
	// JSON and the rows of pages. One tenant gets at most half of it. A request
	// waits two seconds for memory and then fails with ErrUnavailable. Default 1
	// GiB. The garbage collector may let the process grow to twice as much;
	// GOMEMLIMIT limits that.
	MaxMemory int64

	// Runtime runs the code of reactors and proxy transforms, and checks code when
	// it is written. Without a Runtime, code is stored unchecked and cannot run.
	// The vault closes it.
	Runtime Runtime

	// Egress restricts where proxies, callbacks and tenant code may connect to. The
	// zero value allows https to public addresses.
	Egress EgressPolicy

	// ProxyTimeout is how long the destination of a proxy may take to start its
	// response, and how long it may pause between two parts of the response.
	// Default 25 seconds.
	ProxyTimeout time.Duration

	// WorkEvery is the time between searches for jobs: asynchronous runs and their
	// callbacks. Default one second. If it is negative, this node runs jobs only
	// when the program calls [Vault.Work].
	WorkEvery time.Duration

	// ScriptLog receives what tenant code writes to its console. The lines may hold
	// plaintext, so they go nowhere else. Many goroutines call ScriptLog, and the
	// run waits for it; a panic in it is logged, and the run continues. Default:
	// the lines are dropped.
	ScriptLog func(ScriptLine)

	// Logger receives errors and warnings of background work. It never receives
	// plaintext. Default: nothing is logged.
	Logger *slog.Logger

	// Observer, if set, is notified of client operations, runs of tenant code,
	// jobs, sweeps, requests to destinations, and calls to the master key.
	Observer Observer

	// Evidence, if set, makes every change of the audit log detectable. It needs a
	// storage that keeps trees, as the storages of this module do.
	Evidence *EvidenceConfig

	// KeyAge is how long a node uses keys that the master key has unwrapped before
	// it asks the holder of the master key again. Zero means one minute; a negative
	// KeyAge means that it never asks. The question is asked in the background when
	// half of the time is over, by one call for the whole vault, and no operation
	// waits for it. If the holder denies the use of the key with an error that
	// matches [ErrKeyDenied], the node drops all unwrapped keys, and operations fail
	// with that error until the key is available again. A [Key] has no other holder,
	// so nothing is asked about it.
	KeyAge time.Duration

	// KeyGrace is how long after KeyAge the unwrapped keys are still used while the
	// holder of the master key does not respond. After it they are dropped, and
	// operations fail with [ErrKeyUnavailable]. Default 5 minutes. If it is negative,
	// there is no grace.
	KeyGrace time.Duration

	// OpenKey opens the key that a URI names, for tenants with their own keys: see
	// [Vault.SetTenantKey]. All nodes need it. Package vaultkms has such a function.
	OpenKey func(ctx context.Context, uri string) (AEAD, error)

	// Identities verifies the JWTs that workloads send in place of an API key: see
	// [Identity]. Without it, no application can have identities. If it also has a method
	// Must(issuer string) []string, an identity of the issuer has to name one of these
	// claims with an exact value; otherwise it has to name sub.
	Identities IdentityVerifier

	// Root is the fingerprint of the vault's root: see [Vault.RootFingerprint]. If it is
	// set, Open fails with any other root. A key that anybody can encrypt for needs it:
	// see [PinnedKey].
	Root string
}

// Defaults and bounds of Config.
const (
	defaultSweepEvery = 5 * time.Minute
	defaultWorkEvery  = time.Second
	defaultProxyWait  = 25 * time.Second
	defaultMaxBytes   = 5 << 20
	defaultMaxTokens  = 20_000
	defaultMaxPage    = 64 << 20
	defaultKeyAge     = time.Minute
	defaultKeyGrace   = 5 * time.Minute
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
	c.SweepEvery = cmp.Or(c.SweepEvery, defaultSweepEvery)
	c.WorkEvery = cmp.Or(c.WorkEvery, defaultWorkEvery)
	c.ProxyTimeout = cmp.Or(max(c.ProxyTimeout, 0), defaultProxyWait)
	c.MaxBytes = cmp.Or(max(c.MaxBytes, 0), defaultMaxBytes)
	c.MaxTokens = cmp.Or(max(c.MaxTokens, 0), defaultMaxTokens)
	c.MaxPageBytes = cmp.Or(max(c.MaxPageBytes, 0), defaultMaxPage)
	c.MaxMemory = cmp.Or(max(c.MaxMemory, 0), defaultMaxMemory)
	c.KeyAge = cmp.Or(c.KeyAge, defaultKeyAge)
	c.KeyGrace = cmp.Or(c.KeyGrace, defaultKeyGrace)
	c.SinkGrace = cmp.Or(c.SinkGrace, defaultSinkGrace)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, checkLogRetention(c.LogRetention)
}

// minLogRetention is the shortest Config.LogRetention. A write that lost its
// connection looks for its entry among the newest ones to learn whether it was
// committed.
const minLogRetention = 24 * time.Hour

func checkLogRetention(d time.Duration) error {
	if d != 0 && d < minLogRetention {
		return fmt.Errorf("vault: Config.LogRetention is %s; it must be 0, which keeps the log forever, or at least %s", d, minLogRetention)
	}
	return nil
}

// Vault is an open vault. Get one from [Open].
type Vault struct {
	store storage.Storage
	root  *keyring.Root
	cfg   Config

	core     *core.Vault
	egress   *egress.Client
	runs     *runs.Runs
	relay    *relay.Relay
	requests once.Requests

	followers *logs.Followers
	sinks     *sinks.Sinks
	evidence  *notary.Keeper // nil without Config.Evidence

	stop    context.CancelFunc
	done    sync.WaitGroup
	closing sync.Once
}

// Open opens a vault on a database under a master key, and sets up a new database.
// It fails with ErrWrongKey if the database was sealed under another master key,
// and with ErrKeyUnavailable if the master key does not work at the moment. cfg may
// be nil. The context bounds the call only; the vault works until Close.
//
// The vault owns the store and cfg.Runtime from then on: [Vault.Close] closes both,
// and Open closes both when it fails.
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
	held := !isLocal(key)
	tell := teller(c.Observer)
	if tell != nil {
		key = observed(key, tell)
	}
	v := &Vault{store: store, cfg: c}
	v.root, err = keyring.OpenRoot(ctx, keyring.RootConfig{
		Store: store, Master: key, Pin: c.Root, Now: func() time.Time { return time.UnixMicro(c.Now().UnixMicro()).UTC() },
		Altered: func(ctx context.Context, err error) {
			_ = v.core.Alarm(ctx, core.AlarmUnreadable, uuid.Nil, core.Entity{Type: keyring.KindRing, ID: uuid.Nil.String()}, err)
		},
	})
	if err != nil {
		return nil, err
	}
	v.core = core.New(core.Config{
		Store: store, Root: v.root, Clock: c.Now, Logger: c.Logger, Mac: notary.Mac, ReadAge: c.readAge(), StrictReadLogs: c.StrictReadLogs, FullAudit: c.FullAudit,
		AllowPrivate: c.Egress.AllowPrivate, MaxBytes: c.MaxBytes, MaxTokens: c.MaxTokens, MaxPageBytes: c.MaxPageBytes, MaxMemory: c.MaxMemory, Observe: tell,
		VerifyJWT: c.verifyJWT(), MustClaims: c.mustClaims,
		OpenKey: c.openKey(), KeyAge: c.KeyAge, KeyGrace: max(0, c.KeyGrace),
	})
	v.egress = c.Egress.client(v.observeEgress())
	v.followers = logs.NewFollowers()
	v.runs = runs.New(runs.Config{Vault: v.core, Runtime: c.Runtime, Egress: v.egress, Operation: v.operation, Log: v.cfg.scriptLog()})
	v.relay = relay.New(relay.Config{Vault: v.core, Egress: v.egress, Runs: v.runs, Timeout: c.ProxyTimeout})
	if held {
		v.tellRoot(ctx)
	}
	if held && c.KeyAge > 0 {
		v.core.Key = v.watchKey()
		v.root.Usable = v.core.Key.Usable
	}
	if err := errors.Join(v.openEvidence(ctx), v.openSinks(ctx)); err != nil {
		return nil, err
	}
	v.background(ctx, cfg == nil || cfg.Now == nil)
	return v, nil
}

// background starts the work that ends with Close. It watches the clock of the database
// if the vault uses the clock of the machine.
func (v *Vault) background(ctx context.Context, realClock bool) {
	c := v.cfg
	background, stop := context.WithCancel(context.Background())
	v.stop = stop
	if c.FullAudit {
		v.core.Audit(background, v.done.Go)
	}
	if v.core.Key != nil {
		v.done.Go(func() { v.core.Key.Run(background) })
	}
	if v.evidence != nil {
		v.done.Go(func() { v.evidence.Run(background) })
	}
	if c.SweepEvery > 0 {
		v.done.Go(func() { v.sweepLoop(background) })
	}
	if clock, ok := v.store.(storage.Clock); ok && realClock {
		v.core.Skew.Compare(ctx, clock, c.Logger)
		v.done.Go(func() { v.core.Skew.Watch(background, clock, c.Logger) })
	}
	if len(c.Sinks) > 0 {
		v.done.Go(func() { v.sinks.Loop(background) })
	}
	if c.WorkEvery > 0 {
		v.done.Go(func() { v.runs.Worker.Loop(background, c.WorkEvery) })
	}
}

// ClockAhead returns how far the clock of this node is ahead of the database's
// clock. The vault compares the clocks in Open and then every minute. ClockAhead is
// zero on SQLite, and when Config.Now is set. If the clocks differ by more than 30
// seconds, the vault logs a warning and deletes no expired rows.
func (v *Vault) ClockAhead() time.Duration { return v.core.Skew.Ahead() }

// Now returns the time of the vault's clock: see [Config].Now.
func (v *Vault) Now() time.Time { return v.core.Now() }

// StopJobs lets this node take no more jobs, and waits for the running jobs until
// ctx ends. Close interrupts jobs that are still running; another node runs them
// again.
func (v *Vault) StopJobs(ctx context.Context) error {
	if err := v.core.Alive(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return v.runs.Worker.Stop(ctx)
}

// Close stops background work, waits for it, and closes the runtime and the store.
// Later operations fail with ErrClosed. Closing again does nothing.
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

// Ping reports whether the database responds and can be written. It is meant for
// probes: it queries the database at most once a second, however often it is
// called. If the database hangs, Ping returns when the context ends.
func (v *Vault) Ping(ctx context.Context) error { return v.core.Ping(ctx) }

// EgressPolicy restricts where proxies, callbacks and tenant code may connect to.
// The zero value allows https with TLS 1.2 or later to public addresses. The
// address is checked when it is dialed, so a name that changes its address cannot
// bypass the policy.
type EgressPolicy struct {
	// AllowHTTP allows plain http.
	AllowHTTP bool
	// AllowPrivate also allows loopback and private addresses. Link-local addresses
	// such as 169.254.169.254, at which clouds serve the credentials of a machine,
	// need AllowPrefixes.
	AllowPrivate bool
	// AllowPrefixes allows addresses that would be refused, and DenyPrefixes
	// refuses addresses that would be allowed. DenyPrefixes takes precedence.
	AllowPrefixes, DenyPrefixes []netip.Prefix
	// Ports lists the allowed ports. Default: all.
	Ports []uint16
	// RootCAs are the authorities that certificates are checked against. Default:
	// the authorities of the system.
	RootCAs *x509.CertPool
	// UseEnvironmentProxy uses HTTPS_PROXY and the related environment variables.
	// The proxy then resolves names, so it must be trusted to enforce this policy.
	UseEnvironmentProxy bool
	// MaxConnsPerTenant limits the concurrent requests of one tenant. Default 100.
	MaxConnsPerTenant int
}

func (p *EgressPolicy) client(observe egress.Observe) *egress.Client {
	return egress.New(egress.Policy{
		AllowHTTP: p.AllowHTTP, AllowPrivate: p.AllowPrivate, AllowPrefixes: p.AllowPrefixes, DenyPrefixes: p.DenyPrefixes,
		Ports: p.Ports, RootCAs: p.RootCAs, UseEnvironmentProxy: p.UseEnvironmentProxy, MaxConnsPerTenant: p.MaxConnsPerTenant, Observe: observe,
	})
}
