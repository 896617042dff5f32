//go:build unix && !race

package power

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// disk records what SQLite does to its files, in order.
type disk struct {
	mu    sync.Mutex
	names map[uintptr]string // of open files
	done  []action
}

// action is a change of a file, or a sync.
type action struct {
	file string
	kind actionKind
	at   int64 // of a write; the size after a truncation
	data []byte
}

type actionKind uint8

const (
	written actionKind = iota
	truncated
	synced
	deleted
)

func (d *disk) add(a action) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, a)
}

// now returns how many actions there have been.
func (d *disk) now() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.done)
}

func (d *disk) name(file uintptr) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[file]
}

// sector is what a disk writes completely or not at all.
const sector = 512

// after returns the files as they may be after a power failure that follows n actions:
// of what was not synced, any sector may be there or not.
func (d *disk) after(n int, r *rand.Rand) (files map[string][]byte, dropped int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	safe, folder := map[string]int{}, 0 // the last sync of each file, and of the folder
	for i, a := range d.done[:n] {
		if a.kind == synced {
			if _, before := safe[a.file]; !before {
				folder = i // SQLite syncs the folder with the first sync of a new file
			}
			safe[a.file] = i
		}
	}
	files = map[string][]byte{}
	share := r.Float64() // of what survives
	for i, a := range d.done[:n] {
		at, ok := safe[a.file]
		kept := func() bool { return ok && i < at || r.Float64() < share }
		switch a.kind {
		case written:
			for from := 0; from < len(a.data); from += sector {
				if part := a.data[from:min(from+sector, len(a.data))]; kept() {
					files[a.file] = overwrite(files[a.file], int(a.at)+from, part)
				} else {
					dropped++
				}
			}
		case truncated:
			if kept() {
				files[a.file] = resize(files[a.file], int(a.at))
			}
		case deleted:
			if i < folder || kept() {
				delete(files, a.file)
			}
		case synced:
		}
	}
	return files, dropped
}

func resize(file []byte, size int) []byte {
	if size <= len(file) {
		return file[:size]
	}
	return append(file, make([]byte, size-len(file))...)
}

func overwrite(file []byte, at int, data []byte) []byte {
	file = resize(file, max(len(file), at+len(data)))
	copy(file[at:], data)
	return file
}

// save writes files to a folder, without the index of the log, which is memory.
func save(t *testing.T, folder string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		if !strings.HasSuffix(name, "-shm") {
			must.Do(t, os.WriteFile(filepath.Join(folder, name), data, 0o600))
		}
	}
}

// method is the driver's form of a function pointer.
func method[F any](f F) uintptr {
	kept = append(kept, &f)
	return *(*uintptr)(unsafe.Pointer(&f))
}

// function returns the function of a function pointer.
func function[F any](pointer uintptr) F {
	return *(*F)(unsafe.Pointer(&pointer))
}

var kept []any // functions that SQLite calls

type (
	openMethod     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	deleteMethod   = func(tls *libc.TLS, vfs, name uintptr, dir int32) int32
	writeMethod    = func(tls *libc.TLS, file, data uintptr, n int32, at int64) int32
	truncateMethod = func(tls *libc.TLS, file uintptr, size int64) int32
	syncMethod     = func(tls *libc.TLS, file uintptr, flags int32) int32
)

// record makes a disk record what SQLite does in this process from now on, in a folder.
func record(folder string) *disk {
	d := &disk{names: map[uintptr]string{}}
	tls := libc.NewTLS()
	vfs := (*sqlite3.Tsqlite3_vfs)(pointer(sqlite3.Xsqlite3_vfs_find(tls, 0)))
	open, remove := function[openMethod](vfs.FxOpen), function[deleteMethod](vfs.FxDelete)
	var mu sync.Mutex
	own := map[uintptr]*sqlite3.Tsqlite3_io_methods{} // by the methods of SQLite
	vfs.FxOpen = method(func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32 {
		rc := open(tls, vfs, name, file, flags, out)
		if f := (*sqlite3.Tsqlite3_file)(pointer(file)); rc == sqlite3.SQLITE_OK && name != 0 && filepath.Dir(libc.GoString(name)) == folder {
			d.mu.Lock()
			d.names[file] = filepath.Base(libc.GoString(name))
			d.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			if own[f.FpMethods] == nil {
				own[f.FpMethods] = d.methods(*(*sqlite3.Tsqlite3_io_methods)(pointer(f.FpMethods)))
			}
			f.FpMethods = uintptr(unsafe.Pointer(own[f.FpMethods]))
		}
		return rc
	})
	vfs.FxDelete = method(func(tls *libc.TLS, vfs, name uintptr, dir int32) int32 {
		rc := remove(tls, vfs, name, dir)
		if rc == sqlite3.SQLITE_OK && filepath.Dir(libc.GoString(name)) == folder {
			d.add(action{file: filepath.Base(libc.GoString(name)), kind: deleted})
			if dir != 0 { // the folder was synced
				d.add(action{file: filepath.Base(libc.GoString(name)), kind: synced})
			}
		}
		return rc
	})
	return d
}

// methods returns the methods of a file that also record.
func (d *disk) methods(m sqlite3.Tsqlite3_io_methods) *sqlite3.Tsqlite3_io_methods {
	write, truncate, sync := function[writeMethod](m.FxWrite), function[truncateMethod](m.FxTruncate), function[syncMethod](m.FxSync)
	m.FxWrite = method(func(tls *libc.TLS, file, data uintptr, n int32, at int64) int32 {
		d.add(action{file: d.name(file), kind: written, at: at, data: append([]byte(nil), unsafe.Slice((*byte)(pointer(data)), n)...)})
		return write(tls, file, data, n, at)
	})
	m.FxTruncate = method(func(tls *libc.TLS, file uintptr, size int64) int32 {
		d.add(action{file: d.name(file), kind: truncated, at: size})
		return truncate(tls, file, size)
	})
	m.FxSync = method(func(tls *libc.TLS, file uintptr, flags int32) int32 {
		rc := sync(tls, file, flags)
		if rc == sqlite3.SQLITE_OK {
			d.add(action{file: d.name(file), kind: synced})
		}
		return rc
	})
	kept = append(kept, &m)
	return &m
}

// pointer returns a pointer to memory of SQLite, which Go does not move.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
