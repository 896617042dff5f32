//go:build unix

package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// binaryFolders are where packages put the server's programs when they do not
// put them on the PATH; of several versions the highest is taken.
var binaryFolders = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
}

// superuser owns a private cluster; when the tests run as root, the operating
// system's user of this name runs it, since a server refuses to run as root.
const superuser = "postgres"

// keeper makes and runs a cluster, says "ready", and waits for the end of its
// input. That comes when the process that started it closes the pipe, or dies
// in any way; the server and its folder go with it.
const keeper = `
trap '' HUP INT TERM
bin=$1 dir=$2 settings=$3
cd "$dir" &&
"$bin/initdb" --no-sync --auth=trust --username=` + superuser + ` --encoding=UTF8 --locale=C -D "$dir/data" >"$dir/log" 2>&1 &&
printf '%s\n' "$settings" >>"$dir/data/postgresql.conf" &&
"$bin/pg_ctl" --silent -w -D "$dir/data" -l "$dir/log" start >>"$dir/log" 2>&1 &&
echo ready || { echo failed; tail -n 5 "$dir/log"; }
cat >/dev/null
"$bin/pg_ctl" --silent -w -D "$dir/data" -m immediate stop >/dev/null 2>&1
cd / && rm -rf "$dir"
`

// settings keep durability as it is in production and everything else small.
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

// Cluster is a running private server.
type Cluster struct {
	URL string // of its own database, as superuser

	keeper *exec.Cmd
	alive  io.Closer
}

// Start makes a cluster in a temporary folder and runs it, reachable through a
// unix socket there. It is stopped and removed by Stop, or when this process
// ends.
func Start() (*Cluster, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "vaultpg")
	if err != nil {
		return nil, err
	}
	credential, err := serverCredential(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	cmd := exec.Command("/bin/sh", "-c", keeper, "pgtest", bin, dir, fmt.Sprintf(settings, dir))
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: credential}
	c := &Cluster{keeper: cmd, URL: "postgres:///postgres?" + url.Values{
		"host": {dir}, "user": {superuser}, "sslmode": {"disable"},
	}.Encode()}
	if err := c.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

// start runs the keeper until it says that the server is ready.
func (c *Cluster) start() error {
	in, err := c.keeper.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.keeper.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.keeper.Start(); err != nil {
		return err
	}
	c.alive = in
	said := bufio.NewReader(out)
	if line, _ := said.ReadString('\n'); line == "ready\n" {
		return nil
	}
	in.Close()
	reason, _ := io.ReadAll(said)
	c.keeper.Wait() //nolint:errcheck // the reason is what matters
	return fmt.Errorf("the server did not start: %s", strings.TrimSpace(string(reason)))
}

// Stop stops the server and waits until its folder has gone.
func (c *Cluster) Stop() error {
	return errors.Join(c.alive.Close(), c.keeper.Wait())
}

// findBinaries returns the folder that holds the server's programs.
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
		if _, err := exec.LookPath(filepath.Join(folder, program)); err != nil {
			return false
		}
	}
	return true
}

// versionOf reads the version out of a folder such as .../postgresql@17/bin.
func versionOf(folder string) float64 {
	name := filepath.Base(filepath.Dir(folder))
	v, err := strconv.ParseFloat(strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz-@"), 64)
	if err != nil {
		return 0
	}
	return v
}

// serverCredential says as whom the server runs (nil: as ourselves), and gives
// that user the folder.
func serverCredential(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(superuser)
	if err != nil {
		return nil, fmt.Errorf("a server cannot run as root, and there is no user %q", superuser)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
}
