package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/user"
	"strconv"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/internal/tenants"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaultkms"
)

// Environment variables with keys. There are no flags for keys, because
// process lists show arguments.
const (
	masterKeyVariable = "TOKENVAULT_MASTER_KEY"
	otherKeyVariable  = "TOKENVAULT_OTHER_MASTER_KEY"
	apiKeyVariable    = "TOKENVAULT_API_KEY"
)

// Environment variables of a workload, in place of an API key: the id of its
// application, and the file of its JWT.
const (
	applicationVariable  = "TOKENVAULT_APPLICATION"
	identityFileVariable = "TOKENVAULT_IDENTITY_FILE"
)

// target is the vault that a command works on.
type target struct {
	serve.Database
	url, prefix   string
	tenant, actor string
	allowPlain    bool
}

// flags adds the flags for the ways in which a command can access a vault.
func (t *target) flags(f *flag.FlagSet, r reach) {
	if r&inProcess != 0 {
		t.OpenKey = openKey
		t.Database.Flags(f)
		f.StringVar(&t.actor, "actor", "", "`name` of the operator in the audit log; by default the user of the operating system")
	}
	if r&overHTTP != 0 {
		f.StringVar(&t.url, "url", "", "`URL` of a vault's REST API; the API key is in "+apiKeyVariable)
		f.BoolVar(&t.allowPlain, "allow-plain-http", false, "allow plain http to another machine, although the network can then read the API key")
		f.StringVar(&t.prefix, "prefix", "SVC-", "`prefix` of the API's own headers")
	}
	f.StringVar(&t.tenant, "tenant", "", "`id` or name of the tenant; with --url, the API key determines it")
}

// opened is an open vault, in process or over HTTP.
type opened struct {
	api   vault.API
	vault *vault.Vault // nil over HTTP
	owner *vault.Owner
	// name identifies the vault: the id of the tenant, or the host of the
	// URL.
	name string
	// client is the HTTP client, or nil in process.
	client *vaultclient.Client
}

// close closes the vault and the keys, if the command has opened them.
func (c *call) close() (err error) {
	if c.opened != nil && c.opened.vault != nil {
		err = c.opened.vault.Close()
	}
	return errors.Join(err, c.target.CloseKeys())
}

// way returns how to access the vault. The command line takes precedence over
// the environment.
func (c *call) way() (reach, error) {
	t, r := &c.target, c.cmd.reach
	db, url := t.Path, t.url
	if r&overHTTP == 0 && c.getenv(variable("url")) != "" && db == "" {
		url = c.getenv(variable("url"))
	}
	switch {
	case db != "" && url != "" && c.typed("db") == c.typed("url"):
		return 0, shell.Usagef("--db and --url are two ways to a vault; give one of them")
	case db != "" && (url == "" || c.typed("db")):
		return inProcess, nil
	case url != "" && r&overHTTP == 0:
		return 0, shell.Usagef("tokenvault %s needs a database: use --db and the master key instead of --url", c.cmd.name)
	case url != "":
		return overHTTP, nil
	case r == bothWays:
		return 0, shell.Usagef("no vault is given: use --db with the path of a SQLite file or a postgres:// URL, and the master key in --key-file or %s; or --url, and an API key in %s", masterKeyVariable, apiKeyVariable)
	case r == inProcess:
		return 0, shell.Usagef("no vault is given: use --db with the path of a SQLite file or a postgres:// URL")
	}
	return 0, shell.Usagef("no vault is given: use --url, and an API key in %s", apiKeyVariable)
}

// open opens the vault as its tenant.
func (c *call) open() (*opened, error) {
	way, err := c.way()
	if err != nil {
		return nil, err
	}
	if way == overHTTP {
		return c.connect()
	}
	o, err := c.openVault()
	if err != nil {
		return nil, err
	}
	if c.target.tenant == "" {
		return nil, shell.Usagef("no tenant is given: use --tenant with an id or name, or set %s", variable("tenant"))
	}
	t, err := c.findTenant(c.target.tenant)
	if err != nil {
		return nil, err
	}
	o.owner = c.asTenant(t.ID)
	o.api, o.name = o.owner, t.ID.String()
	return o, nil
}

// asTenant returns a client that acts as a tenant on behalf of the operator.
func (c *call) asTenant(id uuid.UUID) *vault.Owner {
	client := c.opened.vault.Tenant(id).From(processOrigin())
	if name := c.operator(); name != "" {
		return client.AsUser(name)
	}
	return client
}

// processOrigin returns the host and the process id, for the audit log. A
// long host name is truncated, so that the process id fits.
func processOrigin() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	process := fmt.Sprintf("/%d", os.Getpid())
	return host[:min(len(host), 45-len(process))] + process
}

// operator returns who runs the command, for the audit log. Programs that
// cron, systemd or a container starts often have no USER, so the operating
// system is the last source. An image without /etc/passwd has no user names,
// only a user id.
func (c *call) operator() string {
	if name := c.operatorName(); name != "" {
		return name
	}
	if id := os.Getuid(); id >= 0 {
		return "uid " + strconv.Itoa(id)
	}
	return ""
}

// operatorName returns the name of the operator, if it is known.
func (c *call) operatorName() string {
	return cmp.Or(c.target.actor, c.getenv("USER"), c.getenv("LOGNAME"), c.systemUser())
}

// systemUser returns the name of the effective user of this process.
func systemUser() string {
	u, err := user.Current()
	if err != nil || u.Username == u.Uid {
		return ""
	}
	return u.Username
}

// connect creates a client over HTTP.
func (c *call) connect() (*opened, error) {
	if c.typed("tenant") {
		return nil, shell.Usagef("--tenant goes with --db; with --url the API key in %s says which tenant it is", apiKeyVariable)
	}
	key := c.getenv(apiKeyVariable)
	identity, err := c.identity()
	switch {
	case err != nil:
		return nil, err
	case key == "" && identity == nil:
		return nil, shell.Usagef("--url needs an API key in the environment variable %s, or a workload's JWT with %s and %s", apiKeyVariable, applicationVariable, identityFileVariable)
	case key != "" && identity != nil:
		return nil, shell.Usagef("%s and %s are two ways to sign in; set one of them", apiKeyVariable, identityFileVariable)
	}
	client, err := vaultclient.New(c.target.url, key, &vaultclient.Options{Key: identity, Prefix: c.target.prefix, UserAgent: "tokenvault", AllowPlainHTTP: c.target.allowPlain})
	if err != nil {
		return nil, shell.Usagef("%v", err)
	}
	at, err := url.Parse(c.target.url)
	if err != nil {
		return nil, shell.Usagef("--url is not a URL")
	}
	c.opened = &opened{api: client, client: client, name: at.Host}
	return c.opened, nil
}

// identity returns the source of a workload's JWT, or nil if the environment has none.
func (c *call) identity() (func(context.Context) (string, error), error) {
	application, file := c.getenv(applicationVariable), c.getenv(identityFileVariable)
	id, err := uuid.Parse(application)
	switch {
	case application == "" && file == "":
		return nil, nil
	case application == "" || file == "":
		return nil, shell.Usagef("%s and %s belong together: set both", applicationVariable, identityFileVariable)
	case err != nil:
		return nil, shell.Usagef("%s must be the id of an application", applicationVariable)
	}
	return vaultclient.IdentityFile(id, file), nil
}

// openVault opens the database with the master key. It runs no jobs or
// sweeps, which are the work of servers.
func (c *call) openVault() (*opened, error) {
	if c.opened != nil {
		return c.opened, nil
	}
	if way, err := c.way(); err != nil {
		return nil, err
	} else if way != inProcess {
		return nil, shell.Usagef("this needs a database: use --db and the master key instead of --url")
	}
	key, err := c.masterKey()
	if err != nil {
		return nil, err
	}
	store, err := c.openStore(storage.MigrateCheck)
	if errors.Is(err, storage.ErrOldSchema) {
		return nil, errors.New("the schema of the database is older than this program; tokenvault migrate up updates it")
	}
	if err != nil {
		return nil, err
	}
	evidence, err := c.evidence(store)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	logger := slog.New(slog.NewTextHandler(c.Err, nil))
	v, err := vault.Open(c.ctx, store, key, &vault.Config{
		SweepEvery: -1, WorkEvery: -1, Evidence: evidence, Runtime: jsruntime.New(&jsruntime.Options{Lazy: true}),
		Logger: logger, Egress: c.target.Egress(), OpenKey: c.target.TenantKeys(logger), Root: c.target.Root,
	})
	if errors.Is(err, vault.ErrWrongKey) {
		return nil, fmt.Errorf("%w\ngive the --key-file or %s that the database was created with", err, masterKeyVariable)
	}
	if err != nil {
		return nil, err
	}
	c.opened = &opened{vault: v}
	return c.opened, nil
}

// openStore opens the database. It does not create a SQLite file, because a
// missing file means that --db is wrong.
func (c *call) openStore(mode storage.MigrateMode) (vault.Storage, error) {
	if _, err := os.Stat(c.target.Path); err != nil && !serve.IsPostgres(c.target.Path) && mode != storage.MigrateOnly {
		return nil, fmt.Errorf("there is no database: %w\ntokenvault migrate up creates one", err)
	}
	return c.target.Open(c.ctx, mode)
}

// masterKey reads the master key, and the second master key if there is one.
func (c *call) masterKey() (vault.AEAD, error) {
	key, err := c.readKey(masterKeyVariable, c.target.MasterKey, c.target.KeyFile)
	if err != nil {
		return nil, err
	}
	if key == nil {
		return nil, shell.Usagef("no master key is given: use --key-file, or the environment variable %s", masterKeyVariable)
	}
	other, err := c.otherKey()
	if err != nil || other == nil {
		return key, err
	}
	return vault.JoinKeys(key, other), nil
}

// otherKey reads the second master key, or returns nil if none is set.
func (c *call) otherKey() (vault.AEAD, error) {
	return c.readKey(otherKeyVariable, c.target.OtherKey, c.target.OtherKeyFile)
}

// readKey opens the key of a URI on the command line, or reads a key from a file
// on the command line, from an environment variable, or from a file named in the
// environment, in this order. It returns nil if there is no key.
func (c *call) readKey(variable string, uri serve.KeyURI, file string) (vault.AEAD, error) {
	text := cmp.Or(string(uri), c.getenvForKeys(variable))
	key, err := c.target.ReadKey(c.ctx, slog.New(slog.NewTextHandler(c.Err, nil)), text, file)
	if errors.Is(err, fs.ErrNotExist) && text == "" {
		err = fmt.Errorf("%w\ntokenvault key new creates one", err)
	}
	return key, err
}

// getenvForKeys is getenv without the keys for which the command line names
// files, because the command line takes precedence.
func (c *call) getenvForKeys(name string) string {
	if name == masterKeyVariable && c.typed("key-file") || name == otherKeyVariable && c.typed("other-key-file") {
		return ""
	}
	return c.getenv(name)
}

// errNamesNoOne is about a name that may belong to another tenant. The name of an
// unreadable tenant is not known, so it may be any name.
var errNamesNoOne = errors.New("this name is ambiguous, because the tenant was renamed, another tenant had the name, or a tenant cannot be read; use its id, which tokenvault tenant list shows")

// findTenant returns the tenant with an id or a name. A tenant can rename
// itself to a name that another tenant no longer uses. A command that makes
// changes therefore accepts a name only if the tenant was created under it, and no
// other tenant ever had it.
func (c *call) findTenant(which string) (*vault.Tenant, error) {
	id, parsed := uuid.Parse(which)
	var found *vault.Tenant
	namesakes, unreadable := 0, false
	for t, err := range c.opened.vault.AllTenants(c.ctx) {
		if err != nil {
			return nil, err
		}
		if parsed == nil && t.ID == id {
			return t, nil
		}
		if t.CreatedAs == which {
			namesakes++
		}
		unreadable = unreadable || t.Unreadable
		switch {
		case parsed == nil || t.Name != which:
		case found != nil:
			return nil, errors.New("several tenants have this name; use the id")
		default:
			found = t
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%w; tokenvault tenant list shows all tenants", fault.ErrNoTenant)
	}
	if !c.cmd.changes() {
		return found, nil
	}
	another, err := tenants.HadAnother(c.ctx, core.CallerOf(c.opened.vault.Tenant(found.ID)).Vault, which, found.ID)
	if err != nil {
		return nil, err
	}
	if another || found.CreatedAs != which || namesakes != 1 || unreadable {
		return nil, errNamesNoOne
	}
	return found, nil
}

// openKey opens the URI of a master key or a tenant's key.
func openKey(ctx context.Context, logger *slog.Logger, uri string) (vault.AEAD, error) {
	return vaultkms.OpenOptions(ctx, uri, &vaultkms.Options{Logger: logger})
}
