package doctor

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
)

// Database checks the database itself, without a vault.
func (e *Examination) Database(ctx context.Context, d *serve.Database) {
	if serve.IsPostgres(d.Path) {
		e.postgres(ctx, d)
	} else {
		e.sqlite(ctx, d)
	}
}

// sqlite checks a SQLite file.
func (e *Examination) sqlite(ctx context.Context, d *serve.Database) {
	file := d.Path
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		e.Fail("database", "Correct --db, or run tokenvault migrate up to create one.", "there is no such file")
		return
	}
	if err != nil {
		e.Fail("database", "Correct --db.", "the file cannot be inspected: %s", shell.FirstLine(err))
		return
	}
	e.mode("database", file, info)
	e.disk(file)
	if newest := newestFile(file); newest.After(time.Now().Add(maxSkew)) {
		e.Warn("clock", "Let NTP set the clock.", "the database was last written in the future, at %s", shell.TimeText(newest))
	} else {
		e.OK("clock", "is not behind the last write")
	}
	db, err := d.OpenSQL()
	if err != nil {
		e.Fail("database", "Correct --db.", "the file cannot be opened: %s", shell.FirstLine(err))
		return
	}
	defer func() { _ = db.Close() }()
	e.journal(ctx, db)
}

// newestFile returns when the database was last written.
func newestFile(file string) time.Time {
	var newest time.Time
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(file + suffix); err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return newest
}

// mode warns about files that other users can read.
func (e *Examination) mode(check, file string, info fs.FileInfo) {
	if info.Mode().Perm()&0o077 != 0 {
		e.Warn(check, "Run chmod 600 "+file, "other users can read %s", file)
		return
	}
	e.OK(check, "only the owner can read %s", file)
}

func (e *Examination) journal(ctx context.Context, db *sql.DB) {
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		e.Fail("settings", "Restore a backup.", "the file is not a SQLite database")
		return
	}
	if mode != "wal" {
		e.Warn("settings", "Open it once with a vault, which sets it.", "the journal mode is %s, not wal", mode)
		return
	}
	e.OK("settings", "the journal mode is wal")
}

// KeyFiles checks the files that hold master keys.
func (e *Examination) KeyFiles(d *serve.Database) {
	for _, file := range []string{d.KeyFile, d.OtherKeyFile} {
		if file == "" {
			continue
		}
		if info, err := os.Stat(file); err == nil {
			e.mode("key", file, info)
		}
	}
}

// postgres checks a PostgreSQL server.
func (e *Examination) postgres(ctx context.Context, d *serve.Database) {
	e.transport(d)
	db, err := d.OpenSQL()
	if err != nil {
		e.Fail("database", "Correct --db.", "%s", shell.FirstLine(err))
		return
	}
	defer func() { _ = db.Close() }()
	before := time.Now()
	var now time.Time
	var recovery bool
	err = db.QueryRowContext(ctx, "SELECT clock_timestamp(), pg_is_in_recovery()").Scan(&now, &recovery)
	after := time.Now()
	if err != nil {
		e.Fail("database", "Start the server, or correct --db.", "the server cannot be reached or refuses the connection")
		return
	}
	if recovery {
		e.Fail("database", "Give the host of the primary, or all hosts.", "the server is a standby, which cannot be written")
	}
	e.serverSettings(ctx, db)
	e.clock(now, before, after, 0)
}

// setting is a setting of a PostgreSQL server, and its recommended value.
type setting struct {
	name, want, why string
	grave           bool
}

var serverSettings = []setting{
	{"fsync", "on", "Set fsync = on: a power failure may otherwise destroy the database.", true},
	{"full_page_writes", "on", "Set full_page_writes = on: a power failure may otherwise damage pages.", false},
	{"server_encoding", "UTF8", "Create the database with ENCODING 'UTF8'.", true},
	{"data_checksums", "on", "Turn on data checksums with pg_checksums --enable, so that damage is noticed.", false},
}

// Versions and connections that a vault requires.
const (
	oldestServer = 120000
	connections  = 17 // of one node
)

func (e *Examination) serverSettings(ctx context.Context, db *sql.DB) {
	show := func(name string) string {
		var text string
		if err := db.QueryRowContext(ctx, "SELECT current_setting($1)", name).Scan(&text); err != nil {
			return ""
		}
		return text
	}
	if version, _ := strconv.Atoi(show("server_version_num")); version < oldestServer {
		e.Fail("database", "Upgrade to PostgreSQL 12 or later.", "the server is too old: %s", show("server_version"))
	} else {
		e.OK("database", "PostgreSQL %s", show("server_version"))
	}
	for _, s := range serverSettings {
		got := show(s.name)
		switch {
		case got == s.want:
			e.OK("settings", "%s is %s", s.name, got)
		case s.grave:
			e.Fail("settings", s.why, "%s is %s", s.name, got)
		default:
			e.Warn("settings", s.why, "%s is %s", s.name, got)
		}
	}
	if commit := show("synchronous_commit"); commit == "off" {
		e.Fail("settings", "Set synchronous_commit = on for the vault's role: servers refuse to start otherwise.", "synchronous_commit is off")
	}
	if most, err := strconv.Atoi(show("max_connections")); err == nil && most < 2*connections {
		e.Warn("settings", "Raise max_connections: each node of a vault takes 17.", "max_connections is %d", most)
	}
	var small bool
	err := db.QueryRowContext(ctx, "SELECT pg_size_bytes(current_setting('max_wal_size')) < pg_size_bytes('4GB')").Scan(&small)
	if err == nil && small {
		e.Warn("settings", "Set max_wal_size = 16GB before large imports: frequent checkpoints double the write-ahead log.", "max_wal_size is %s", show("max_wal_size"))
	}
}

// transport checks whether the URL encrypts the connection.
func (e *Examination) transport(d *serve.Database) {
	u, err := url.Parse(d.Path)
	if err != nil {
		return
	}
	host, mode := u.Hostname(), u.Query().Get("sslmode")
	if h := u.Query().Get("host"); h != "" {
		host = h
	}
	ip := net.ParseIP(host)
	local := host == "" || host[0] == '/' || host == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case local || mode == "verify-full":
		e.OK("transport", "the connection to the database is local or verified")
	case mode == "disable":
		e.Warn("transport", "Use sslmode=verify-full.", "the connection to the database is not encrypted")
	default:
		e.Warn("transport", "Use sslmode=verify-full.", "the certificate of the database is not verified")
	}
}
