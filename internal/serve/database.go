package serve

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// Database configures where the data of a vault is, and how to reach it. All
// commands that work on a database share its flags, so that they interpret the
// environment in the same way.
type Database struct {
	Path         string // of a SQLite file, or a postgres:// URL
	KeyFile      string // file with the master key
	OtherKeyFile string // file with a second master key
	MasterKey    KeyURI // of the master key, in place of the file
	OtherKey     KeyURI // of a second master key
	Root         string // fingerprint of the vault's root
	Schema       string // of the tables on PostgreSQL
	Pooler       bool   // a pooler is in front of PostgreSQL
	MaxConns     int    // to PostgreSQL; zero for the default

	// AllowPrivateEgress lets tenants' requests use plain HTTP and reach private
	// addresses. It is for development.
	AllowPrivateEgress bool

	// OpenKey opens the URI of a master key or a tenant's key. If it is nil, URIs are refused.
	OpenKey func(ctx context.Context, logger *slog.Logger, uri string) (vault.AEAD, error)

	opened []vault.AEAD // by ParseKey
}

// KeyURI is a flag with the URI of a master key. It refuses the text of a key,
// because other users can read the command line.
type KeyURI string

// String implements flag.Value.
func (u *KeyURI) String() string { return string(*u) }

// Set implements flag.Value.
func (u *KeyURI) Set(text string) error {
	if !IsKeyURI(text) {
		return errors.New("takes the URI of a key, such as awskms://..., never a key itself; a key belongs in a file or in " + masterKeyVariable)
	}
	*u = KeyURI(text)
	return nil
}

// IsKeyURI reports whether a text is the URI of a master key, and not a key.
func IsKeyURI(text string) bool {
	return strings.HasPrefix(text, "exec:") || strings.Contains(text, "://")
}

// ParseKey returns the master key of a text, which is a key or a URI.
func (d *Database) ParseKey(ctx context.Context, logger *slog.Logger, text string) (vault.AEAD, error) {
	text = strings.TrimSpace(text)
	if !IsKeyURI(text) {
		return vault.ParseKey(text)
	}
	if d.OpenKey == nil {
		return nil, errors.New("this program opens no keys by URI; tokenvault serve does")
	}
	key, err := d.OpenKey(ctx, logger, text)
	if err == nil {
		d.opened = append(d.opened, key)
	}
	return key, err
}

// CloseKeys closes the master keys that were opened by URI.
func (d *Database) CloseKeys() (err error) {
	for _, key := range d.opened {
		if c, ok := key.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	d.opened = nil
	return err
}

// TenantKeys returns OpenKey for [vault.Config], or nil.
func (d *Database) TenantKeys(logger *slog.Logger) func(ctx context.Context, uri string) (vault.AEAD, error) {
	if d.OpenKey == nil {
		return nil
	}
	return func(ctx context.Context, uri string) (vault.AEAD, error) { return d.OpenKey(ctx, logger, uri) }
}

// Flags binds the database to flags. Fields that are already set are the defaults.
func (d *Database) Flags(f *flag.FlagSet) {
	f.StringVar(&d.Path, "db", d.Path, "database: the `path` of a SQLite file, or a postgres:// URL")
	f.StringVar(&d.KeyFile, "key-file", d.KeyFile, "`file` with the master key, unless "+masterKeyVariable+" holds it")
	f.StringVar(&d.OtherKeyFile, "other-key-file", "",
		"`file` with a second master key, which only opens what it has wrapped, for a change of keys; or "+otherKeyVariable)
	f.Var(&d.MasterKey, "master-key", "`URI` of the master key in a KMS or HSM; or "+masterKeyVariable)
	f.Var(&d.OtherKey, "other-master-key", "`URI` of a second master key; or "+otherKeyVariable)
	f.StringVar(&d.Root, "root", "",
		"`fingerprint` of the vault's root, as printed when the vault was made; a key that anybody can encrypt for, as with RSA, needs it")
	f.StringVar(&d.Schema, "schema", "", "`schema` of the tables on PostgreSQL, when it is not the connection's own")
	f.BoolVar(&d.Pooler, "pooler", false, "the postgres:// URL leads to a pooler in transaction mode, such as PgBouncer")
	f.IntVar(&d.MaxConns, "max-conns", 0, "at most this `number` of connections to PostgreSQL; 0 for 17")
	f.BoolVar(&d.AllowPrivateEgress, "allow-private-egress", false,
		"for development: allow plain http and private addresses for proxies, callbacks and fetch")
}

// Open opens the database.
func (d *Database) Open(ctx context.Context, mode storage.MigrateMode) (vault.Storage, error) {
	if IsPostgres(d.Path) {
		return postgres.OpenOptions(ctx, d.Path, d.Postgres(mode))
	}
	return sqlite.OpenOptions(ctx, d.Path, &sqlite.Options{Migrate: mode})
}

// Postgres returns the options for PostgreSQL.
func (d *Database) Postgres(mode storage.MigrateMode) *postgres.Options {
	return &postgres.Options{Schema: d.Schema, TransactionPooler: d.Pooler, MaxConns: d.MaxConns, Migrate: mode}
}

// Egress returns the policy for tenants' requests.
func (d *Database) Egress() vault.EgressPolicy {
	return vault.EgressPolicy{AllowHTTP: d.AllowPrivateEgress, AllowPrivate: d.AllowPrivateEgress}
}

func (d *Database) check() error {
	switch {
	case d.Path == "" || d.KeyFile == "":
		return errors.New("--db and --key-file must not be empty")
	case d.Pooler && !IsPostgres(d.Path):
		return errors.New("--pooler needs a postgres:// URL in --db")
	case d.MaxConns < 0 || d.MaxConns == 1:
		return errors.New("--max-conns must be at least 2, or 0 for the default")
	}
	return nil
}

// IsPostgres reports whether a database is a PostgreSQL URL.
func IsPostgres(db string) bool {
	return strings.HasPrefix(db, "postgres://") || strings.HasPrefix(db, "postgresql://")
}
