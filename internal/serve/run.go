// Package serve runs a vault behind REST, for examples/server and tokenvault
// serve. It handles flags, key files, a demo tenant, metrics and a graceful
// shutdown.
//
// It promises that a combination of flags which cannot work is an error before anything
// listens, and that a server which is told to stop first completes the requests in
// progress. Only the two programs import it.
//
// Begin with [Config] and its flags in config.go, then read [Config.Serve].
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/internal/terminal"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/storage"
)

// Main runs examples/server. It returns when ctx ends, or earlier.
func Main(ctx context.Context, args []string, oidc OIDC, getenv func(string) string, stdout, stderr io.Writer) error {
	cfg, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	cfg.OIDC = oidc
	return cfg.run(ctx, getenv, stdout, stderr)
}

// Serve serves until ctx ends. Master keys in the environment take precedence over
// files.
func (c *Config) Serve(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) error {
	if err := c.check(); err != nil {
		return c.report(&FlagError{err}, stderr)
	}
	return c.run(ctx, getenv, stdout, stderr)
}

// ReportedError is an error that the log already has.
type ReportedError struct{ error }

// Unwrap returns the underlying error.
func (e *ReportedError) Unwrap() error { return e.error }

// report logs the error that ends a server if its log is JSON, because a line of
// text would not fit in it.
func (c *Config) report(err error, stderr io.Writer) error {
	if err == nil || c.logFormat != formatJSON {
		return err
	}
	slog.New(c.logHandler(stderr)).Error("the server has ended", "error", err)
	return &ReportedError{err}
}

// lines writes each line as a JSON object of the log.
type lines struct{ logger *slog.Logger }

// Write implements io.Writer.
func (l lines) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		if line = strings.TrimSpace(line); line != "" {
			l.logger.Info(line)
		}
	}
	return len(p), nil
}

// FlagError is an error about the flags of a server.
type FlagError struct{ error }

// Unwrap returns the underlying error.
func (e *FlagError) Unwrap() error { return e.error }

func (c *Config) run(ctx context.Context, getenv func(string) string, stdout, stderr io.Writer) error {
	c.masterKey = cmp.Or(string(c.MasterKey), getenv(masterKeyVariable))
	c.otherKey = cmp.Or(string(c.OtherKey), getenv(otherKeyVariable))
	c.console = newConsole(c)
	bar := terminal.NewProgress(stderr) // log lines appear above it
	log := &logFile{out: bar}
	logger := slog.New(traced{c.logHandler(log)})
	if c.requestLog {
		c.requests = slog.New(requestLog{c.logHandler(log), log, c.logFormat == formatJSON})
		every := time.NewTicker(time.Second)
		defer every.Stop()
		defer log.flushEvery(every.C)()
	}
	switch {
	case c.newTenant != "":
		return printLine(ctx, c, stdout, bar, logger, newTenant)
	case c.rotateKeys != "":
		return printLine(ctx, c, stdout, bar, logger, rotateKeys)
	}
	if c.logFormat == formatJSON {
		stdout = lines{slog.New(c.logHandler(stdout))}
	}
	return c.report(serve(ctx, c, stdout, logger), log)
}

// formatJSON is the value of --log-format for JSON.
const formatJSON = "json"

func (c *Config) logHandler(w io.Writer) slog.Handler {
	if c.logFormat == formatJSON {
		return slog.NewJSONHandler(w, nil)
	}
	return slog.NewTextHandler(w, nil)
}

// printLine runs a task whose result is one line. It erases the progress line
// before it prints the result.
func printLine(ctx context.Context, cfg *Config, stdout io.Writer, bar *terminal.Progress, logger *slog.Logger,
	do func(context.Context, *vault.Vault, *Config, *terminal.Progress) (string, error)) error {
	v, err := openVault(ctx, cfg, logger)
	if err != nil {
		return err
	}
	line, err := do(ctx, v, cfg, bar)
	bar.Clear()
	if err == nil {
		_, err = fmt.Fprintln(stdout, line)
	}
	return errors.Join(err, v.Close(), cfg.CloseKeys())
}

// openVault opens the database with the master key. To rotate keys, both must already
// exist. A new database has no keys to rotate, so a
// missing one means that -db is mistyped.
func openVault(ctx context.Context, cfg *Config, logger *slog.Logger) (*vault.Vault, error) {
	if cfg.rotateKeys != "" && !IsPostgres(cfg.Path) {
		if _, err := os.Stat(cfg.Path); err != nil {
			return nil, fmt.Errorf("--rotate-keys needs an existing database: %w", err)
		}
	}
	key, created, err := loadMasterKey(ctx, cfg, logger)
	if err != nil {
		return nil, err
	}
	other, err := otherMasterKey(ctx, cfg, logger)
	if err != nil {
		return nil, errors.Join(err, cfg.CloseKeys())
	}
	joined := vault.JoinKeys(key, other...)
	var v *vault.Vault
	err = untilKeyResponds(ctx, logger, func() (err error) {
		v, err = cfg.openWith(ctx, joined, created, logger)
		return err
	})
	if err != nil {
		err = errors.Join(err, cfg.CloseKeys())
	}
	return v, err
}

// A start waits keyWait for the service that holds the master key, and tries again
// after keyPause. A denied key is not tried again.
const (
	keyWait  = time.Minute
	keyPause = 2 * time.Second
)

// untilKeyResponds opens a vault, and tries again for keyWait while its master key does
// not respond.
func untilKeyResponds(ctx context.Context, logger *slog.Logger, open func() error) error {
	for began := time.Now(); ; {
		err := open()
		if !errors.Is(err, vault.ErrKeyUnavailable) || time.Since(began) > keyWait {
			return err
		}
		logger.WarnContext(ctx, "the service that holds the master key does not respond; it is tried again", "error", err)
		if pace.Sleep(ctx, keyPause) != nil {
			return err
		}
	}
}

// openWith opens the vault with a master key, which may have been created just now.
func (c *Config) openWith(ctx context.Context, key vault.AEAD, created bool, logger *slog.Logger) (*vault.Vault, error) {
	sinks, err := c.sinkConfig()
	if err != nil {
		return nil, err
	}
	store, err := c.Open(ctx, storage.MigrateAuto)
	if err != nil {
		return nil, err
	}
	runtime := jsruntime.New(&jsruntime.Options{Modules: c.modules, Logger: logger})
	config := &vault.Config{
		Logger: logger, Evidence: c.evidenceConfig(), StrictReadLogs: c.strictReadLogs, FullAudit: c.fullAudit,
		LogRetention: c.logRetention, Runtime: runtime, Egress: c.Egress(), KeyAge: c.keyAge, KeyGrace: c.keyGrace,
		OpenKey: c.TenantKeys(logger), Root: c.Root, Identities: c.identities,
	}
	if c.keyAge == 0 {
		config.KeyAge = -1
	}
	if c.keyGrace == 0 {
		config.KeyGrace = -1
	}
	if c.newTenant != "" || c.rotateKeys != "" {
		config.SweepEvery, config.WorkEvery = -1, -1 // left to the servers
	} else {
		config.Sinks = sinks
	}
	c.metrics = newMetrics(c.cert)
	config.Observer = c.metrics
	if c.console != nil {
		config.Observer = vault.Observers(c.metrics, c.console.recorder)
	}
	v, err := vault.Open(ctx, store, key, config)
	if errors.Is(err, vault.ErrWrongKey) {
		if created {
			err = errors.Join(err, os.Remove(c.KeyFile)) // no data is sealed under it
		}
		return nil, fmt.Errorf("%w\nstart with the --key-file or %s that the database was created with", err, masterKeyVariable)
	}
	if err == nil {
		c.metrics.Watch(v)
	}
	return v, err
}

// traced adds the trace id of the request to every log line about it.
type traced struct{ slog.Handler }

func (t traced) Handle(ctx context.Context, r slog.Record) error {
	if id := vault.TraceID(ctx); id != "" {
		r.AddAttrs(slog.String("trace_id", id))
	}
	return t.Handler.Handle(ctx, r)
}

func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{t.Handler.WithAttrs(attrs)} }
func (t traced) WithGroup(name string) slog.Handler       { return traced{t.Handler.WithGroup(name)} }
