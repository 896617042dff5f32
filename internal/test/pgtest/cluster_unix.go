//go:build unix

package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// binaryFolders are the places where packages install the server's programs if
// these are not in the PATH. The highest version found is used.
var binaryFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
}

// superuser owns a private cluster. A server refuses to run as root, so when
// the tests run as root, the operating system's user of this name runs the
// server.
const superuser = "postgres"

// initializer creates the files of a cluster once per process. Every cluster
// starts on a copy: initdb takes a second, a copy a twentieth of that.
const initializer = `
bin=$2
cd "$dir" &&
"$bin/initdb" --no-sync --auth=trust --username=` + superuser + ` --encoding=UTF8 --locale=C -D "$dir/data" >"$dir/log" 2>&1 &&
echo ready || { echo failed; tail -n 5 "$dir/log"; }
cat >/dev/null
`

// keeper runs a server on a copy of the initial files.
const keeper = `
bin=$2 files=$3 settings=$4
cd "$dir" &&
cp -R "$files" "$dir/data" 2>"$dir/log" &&
printf '%s\n' "$settings" >>"$dir/data/postgresql.conf" &&
"$bin/pg_ctl" --silent -w -D "$dir/data" -l "$dir/log" start >>"$dir/log" 2>&1 &&
echo ready || { echo failed; tail -n 5 "$dir/log"; }
cat >/dev/null
"$bin/pg_ctl" --silent -w -D "$dir/data" -m immediate stop >/dev/null 2>&1
`

// settings keep the durability of production and make everything else small.
const settings = `
listen_addresses = ''
unix_socket_directories = '%s'
fsync = on
synchronous_commit = on
max_connections = 400
shared_buffers = 64MB
max_wal_size = 256MB
autovacuum_naptime = 10s
logging_collector = off
`

// Cluster is a running server.
type Cluster struct {
	URL string // of a superuser
	Dir string // holds a private cluster and its socket; only logs if adopted
	// Files is the folder that a private cluster was copied from: see [EnvFiles].
	Files string

	kept *kept  // nil if the server was adopted
	data string // the data directory
	bin  string
}

// Start creates a cluster in a temporary folder and starts its server, which
// listens on a unix socket there. The further settings override the usual ones.
// The cluster is stopped and removed by Stop, or when this process ends.
func Start(further ...string) (*Cluster, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	files, err := initialFiles(bin)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(folder(), "vaultpg")
	if err != nil {
		return nil, err
	}
	k, err := keep(dir, keeper, bin, files, fmt.Sprintf(settings, dir)+strings.Join(further, "\n"))
	if err != nil {
		return nil, err
	}
	return &Cluster{kept: k, bin: bin, Files: files, Dir: dir, data: filepath.Join(dir, "data"), URL: "postgres:///postgres?" + url.Values{
		"host": {dir}, "user": {superuser}, "sslmode": {"disable"},
	}.Encode()}, nil
}

// initialized is a folder with the files of a new cluster. It must stay
// reachable for the same reason as private, and is removed when this process
// ends.
var initialized struct {
	once sync.Once
	data string
	kept *kept
	err  error
}

// initialFiles returns the folder with the files of a new cluster.
func initialFiles(bin string) (string, error) {
	if files := os.Getenv(EnvFiles); files != "" {
		return files, nil
	}
	f := &initialized
	f.once.Do(func() {
		var dir string
		if dir, f.err = os.MkdirTemp(folder(), "vaultpg"); f.err == nil {
			f.data = filepath.Join(dir, "data")
			f.kept, f.err = keep(dir, initializer, bin)
		}
	})
	return f.data, f.err
}

// memoryFolder is a file system in memory, present on most Linux machines.
const memoryFolder = "/dev/shm"

// folder returns the place for clusters: a file system in memory if it has
// room. Tests stop servers but never the machine, so fsync has nothing to
// protect there. Benchmarks use the disk.
func folder() string {
	bench := flag.Lookup("test.bench")
	if bench != nil && bench.Value.String() != "" || !hasRoom(memoryFolder) {
		return os.TempDir()
	}
	return memoryFolder
}

// Adopt returns a server that already runs on this machine, or [ErrElsewhere].
// The address must be a superuser's. Only Control stops the server. If Control
// starts it again, its log goes to a folder that is removed when the test ends.
func Adopt(t testing.TB, address string) (*Cluster, error) {
	t.Helper()
	db, err := sql.Open("postgres", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	var data, theirs string
	place := db.QueryRowContext(t.Context(), "SELECT current_setting('data_directory'), pg_read_file('postmaster.pid')")
	if err := place.Scan(&data, &theirs); err != nil {
		return nil, err
	}
	if ours, err := os.ReadFile(filepath.Join(data, "postmaster.pid")); err != nil || string(ours) != theirs {
		return nil, ErrElsewhere
	}
	options, err := os.ReadFile(filepath.Join(data, "postmaster.opts"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "vaultpg")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, _, _ := strings.Cut(string(options), " ")
	return &Cluster{URL: address, Dir: dir, data: data, bin: filepath.Dir(program)}, nil
}

// Control runs pg_ctl with the arguments. "stop", "-m", "immediate" is
// equivalent to a power loss; "start" and "promote" also work.
func (c *Cluster) Control(args ...string) error {
	return c.run("pg_ctl", append([]string{"--silent", "-w", "-D", c.data, "-l", filepath.Join(c.Dir, "log")}, args...)...)
}

// Follow turns a stopped cluster into a standby of the primary, with a copy of
// its data, and starts it.
func (c *Cluster) Follow(primary *Cluster) error {
	if err := c.run("rm", "-rf", c.data); err != nil {
		return err
	}
	if err := c.run("pg_basebackup", "-h", primary.Dir, "-U", superuser, "-D", c.data, "-R", "-X", "stream", "-c", "fast", "--no-sync"); err != nil {
		return err
	}
	own := fmt.Sprintf("printf \"%%s\\n\" \"unix_socket_directories = '%s'\" >>'%s/postgresql.conf'", c.Dir, c.data)
	if err := c.run("/bin/sh", "-c", own); err != nil {
		return err
	}
	return c.Control("start")
}

// run runs a program as the server's user.
func (c *Cluster) run(name string, args ...string) error {
	if own := filepath.Join(c.bin, name); hasProgram(own) {
		name = own
	}
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = c.Dir
	credential, err := serverCredential(c.Dir)
	if err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	out, err := os.OpenFile(filepath.Join(c.Dir, "control"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // a server that pg_ctl started keeps its own descriptor
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, said)
	}
	return nil
}

// Stop stops the server and waits until its folder is removed.
func (c *Cluster) Stop() error { return c.kept.stop() }

// findBinaries returns the folder with the server's programs.
func findBinaries() (string, error) {
	if path, err := exec.LookPath("pg_ctl"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && hasServer(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	best, version := "", -1.0
	for _, pattern := range binaryFolders {
		folders, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, folder := range folders {
			if v := versionOf(folder); v > version && hasServer(folder) {
				best, version = folder, v
			}
		}
	}
	if best == "" {
		return "", errors.New("initdb, pg_ctl and postgres were found neither on the PATH nor where packages put them")
	}
	return best, nil
}

func hasServer(folder string) bool {
	for _, program := range []string{"initdb", "pg_ctl", "postgres"} {
		if !hasProgram(filepath.Join(folder, program)) {
			return false
		}
	}
	return true
}

func hasProgram(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

// versionOf returns the version in a path such as .../postgresql@17/bin, or 0.
func versionOf(folder string) float64 {
	name := filepath.Base(filepath.Dir(folder))
	v, err := strconv.ParseFloat(strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz-@"), 64)
	if err != nil {
		return 0
	}
	return v
}
