package cli

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
)

// sqlite checks a SQLite file.
func (e *examination) sqlite(ctx context.Context) {
	file := e.c.target.Path
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		e.fail("database", "Correct --db, or run tokenvault migrate up to create one.", "there is no such file")
		return
	}
	if err != nil {
		e.fail("database", "Correct --db.", "the file cannot be inspected: %s", firstLine(err))
		return
	}
	e.mode("database", file, info)
	e.disk(file)
	if newest := newestFile(file); newest.After(time.Now().Add(maxSkew)) {
		e.warn("clock", "Let NTP set the clock.", "the database was last written in the future, at %s", timeText(newest))
	} else {
		e.ok("clock", "is not behind the last write")
	}
	db, err := e.c.openSQL()
	if err != nil {
		e.fail("database", "Correct --db.", "the file cannot be opened: %s", firstLine(err))
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
func (e *examination) mode(check, file string, info fs.FileInfo) {
	if info.Mode().Perm()&0o077 != 0 {
		e.warn(check, "Run chmod 600 "+file, "other users can read %s", file)
		return
	}
	e.ok(check, "only the owner can read %s", file)
}

func (e *examination) journal(ctx context.Context, db *sql.DB) {
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		e.fail("settings", "Restore a backup.", "the file is not a SQLite database")
		return
	}
	if mode != "wal" {
		e.warn("settings", "Open it once with a vault, which sets it.", "the journal mode is %s, not wal", mode)
		return
	}
	e.ok("settings", "the journal mode is wal")
}

// keyFile checks the files that hold master keys.
func (e *examination) keyFile() {
	for _, file := range []string{e.c.target.KeyFile, e.c.target.OtherKeyFile} {
		if file == "" {
			continue
		}
		if info, err := os.Stat(file); err == nil {
			e.mode("key", file, info)
		}
	}
}

// postgres checks a PostgreSQL server.
func (e *examination) postgres(ctx context.Context) {
	e.transport()
	db, err := e.c.openSQL()
	if err != nil {
		e.fail("database", "Correct --db.", "%s", firstLine(err))
		return
	}
	defer func() { _ = db.Close() }()
	before := time.Now()
	var now time.Time
	var recovery bool
	err = db.QueryRowContext(ctx, "SELECT clock_timestamp(), pg_is_in_recovery()").Scan(&now, &recovery)
	after := time.Now()
	if err != nil {
		e.fail("database", "Start the server, or correct --db.", "the server cannot be reached or refuses the connection")
		return
	}
	if recovery {
		e.fail("database", "Give the host of the primary, or all hosts.", "the server is a standby, which cannot be written")
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

func (e *examination) serverSettings(ctx context.Context, db *sql.DB) {
	show := func(name string) string {
		var text string
		if err := db.QueryRowContext(ctx, "SELECT current_setting($1)", name).Scan(&text); err != nil {
			return ""
		}
		return text
	}
	if version, _ := strconv.Atoi(show("server_version_num")); version < oldestServer {
		e.fail("database", "Upgrade to PostgreSQL 12 or later.", "the server is too old: %s", show("server_version"))
	} else {
		e.ok("database", "PostgreSQL %s", show("server_version"))
	}
	for _, s := range serverSettings {
		got := show(s.name)
		switch {
		case got == s.want:
			e.ok("settings", "%s is %s", s.name, got)
		case s.grave:
			e.fail("settings", s.why, "%s is %s", s.name, got)
		default:
			e.warn("settings", s.why, "%s is %s", s.name, got)
		}
	}
	if commit := show("synchronous_commit"); commit == "off" {
		e.fail("settings", "Set synchronous_commit = on for the vault's role: servers refuse to start otherwise.", "synchronous_commit is off")
	}
	if most, err := strconv.Atoi(show("max_connections")); err == nil && most < 2*connections {
		e.warn("settings", "Raise max_connections: each node of a vault takes 17.", "max_connections is %d", most)
	}
	var small bool
	err := db.QueryRowContext(ctx, "SELECT pg_size_bytes(current_setting('max_wal_size')) < pg_size_bytes('4GB')").Scan(&small)
	if err == nil && small {
		e.warn("settings", "Set max_wal_size = 16GB before large imports: frequent checkpoints double the write-ahead log.", "max_wal_size is %s", show("max_wal_size"))
	}
}

// transport checks whether the URL encrypts the connection.
func (e *examination) transport() {
	u, err := url.Parse(e.c.target.Path)
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
		e.ok("transport", "the connection to the database is local or verified")
	case mode == "disable":
		e.warn("transport", "Use sslmode=verify-full.", "the connection to the database is not encrypted")
	default:
		e.warn("transport", "Use sslmode=verify-full.", "the certificate of the database is not verified")
	}
}
