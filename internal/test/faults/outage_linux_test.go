package faults

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// smallDisk mounts a disk of this many bytes. This needs root.
func smallDisk(t *testing.T, bytes int) (dir string) {
	t.Helper()
	dir = must.Get(os.MkdirTemp("", "vaultdisk"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0777,size="+strconv.Itoa(bytes))
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root can mount a disk")
	}
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// fill fills a disk until empty is called.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	must.Do(t, err)
	page := make([]byte, 4<<10)
	for err == nil {
		_, err = ballast.Write(page)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		must.Do(t, ballast.Close())
		must.Do(t, os.Remove(ballast.Name()))
	}
}

// fullDisk lets callers work while a disk is full, and afterwards.
func fullDisk(t *testing.T, dir string, n *nodes) {
	t.Helper()
	l := n.start()
	l.wait(t, 20)
	empty := fill(t, dir)
	l.waitForRefusal(t)
	n.ready(t, http.StatusServiceUnavailable)
	empty()
	l.wait(t, 20)
	l.check(t)
	l.refused(t, 10*time.Second)
	n.ready(t, http.StatusOK)
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		c, dir := cluster(t), smallDisk(t, 32<<20)
		space := filepath.Join(dir, "space")
		must.Do(t, os.Mkdir(space, 0o700))
		owner := must.Get(user.Lookup("postgres"))(t)
		uid := must.Get(strconv.Atoi(owner.Uid))(t)
		must.Do(t, os.Chown(space, uid, -1))
		must.Do(t, execOn(c, "CREATE TABLESPACE small LOCATION '"+space+"'"))
		t.Cleanup(func() { must.Do(t, c.Control("stop", "-m", "immediate")) }) // its files are on the disk
		fullDisk(t, dir, openNodes(t, 2, opener(t, c.URL+"&default_tablespace=small", &postgres.Options{RetryFor: time.Second})))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		dir := smallDisk(t, 8<<20)
		fullDisk(t, dir, openNodes(t, 1, func() (vault.Storage, error) { return sqlite.Open(t.Context(), filepath.Join(dir, "vault.db")) }))
	})
}

// A disk smaller than the maximum size of SQLite's write-ahead log accepts
// three times its size in writes, and survives a transaction that does not fit.
func TestWALDoesNotFillASmallDisk(t *testing.T) {
	t.Parallel()
	const disk = 6 << 20
	dir := smallDisk(t, disk)
	store := must.Get(sqlite.Open(t.Context(), filepath.Join(dir, "vault.db")))(t)
	defer func() { must.Do(t, store.Close()) }()
	tenant := storage.ID{1}
	write := func(n int, body int) error {
		now, id := time.Now(), fmt.Sprint("token ", n)
		ord := storage.ID{14: byte(n >> 8), 15: byte(n)}
		err := store.Write(t.Context(), &storage.Change{Tenant: tenant, Now: now, InsertTokens: []storage.Token{{
			Ord: ord, ID: id, Type: "token", KeyVersion: 1, Body: make([]byte, body), CreatedAt: now,
		}}})
		if err != nil {
			return err
		}
		return store.Write(t.Context(), &storage.Change{Tenant: tenant, Now: now, DeleteTokens: []storage.TokenDelete{{Ord: ord, Rev: 0, Type: "token"}}})
	}
	const size = 100 << 10
	for n := range 3 * disk / size {
		if err := write(n, size); err != nil {
			t.Fatalf("after %d KiB: %v", n*size>>10, err)
		}
		if n%60 != 0 {
			continue
		}
		must.Match(t, "a token as large as the disk", write(n+10_000, disk), storage.ErrUnavailable)
	}
}

// Opening a file that cannot be written fails with a clear message. Package
// sqlite tests a file that becomes read-only later.
func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "vault.db")
	store := must.Get(sqlite.Open(t.Context(), path))(t)
	must.Do(t, store.Close())
	must.Do(t, os.Chmod(path, 0o400))
	must.Do(t, os.Chmod(dir, 0o500))
	t.Cleanup(func() { must.Do(t, os.Chmod(dir, 0o700)) })
	if os.Geteuid() == 0 { // root ignores file modes
		err := syscall.Mount(dir, dir, "", syscall.MS_BIND, "")
		if errors.Is(err, syscall.EPERM) {
			t.Skip("this root user cannot mount a folder, and ignores file modes")
		}
		must.Do(t, err)
		t.Cleanup(func() { must.Do(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
		must.Do(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
	}
	store, err := sqlite.Open(t.Context(), path)
	if err == nil {
		_ = store.Close()
		t.Fatal("a file that cannot be written was opened")
	}
	if text := err.Error(); !strings.Contains(text, "must be writable") {
		t.Errorf("unclear error: %q", text)
	}
}
