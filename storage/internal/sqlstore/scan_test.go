package sqlstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

func TestScan(t *testing.T) {
	t.Parallel()
	id := storage.ID{0x01, 0x9c, 0xb7, 0x3d, 0x32, 0x71, 0x70, 0x00, 0x80, 1, 2, 3, 4, 5, 6, 0xff}
	key := storage.Key{7, 31: 9}
	at := time.Date(2026, 3, 4, 5, 6, 7, 89012000, time.UTC)
	later := at.Add(time.Hour)
	for _, test := range []struct {
		name string
		src  any
		dest any
		want any
	}{
		{"id of bytes", id[:], &storage.ID{}, &id},
		{"no id", nil, &storage.ID{9}, &storage.ID{}},
		{"hash", id[:], &storage.Hash{}, (*storage.Hash)(&id)},
		{"no hash", nil, &storage.Hash{9}, &storage.Hash{}},
		{"key", key[:], &storage.Key{}, &key},
		{"no key", nil, &storage.Key{9}, &storage.Key{}},
		{"time", at.UnixMicro(), &time.Time{}, &at},
		{"no time", nil, &later, &time.Time{}},
		{"bytes", []byte("abc"), &[]byte{}, &[]byte{'a', 'b', 'c'}},
		{"bytes of none", []byte{}, new([]byte), &[]byte{}},
		{"no bytes", nil, &[]byte{1}, new([]byte)},
		{"containers", "/a/,/b/", new([]string), &[]string{"/a/", "/b/"}},
		{"containers in bytes", []byte("/a/"), new([]string), &[]string{"/a/"}},
		{"no containers", "", &[]string{"/a/"}, new([]string)},
		{"boolean", true, new(bool), boolean(true)},
		{"boolean as a number", int64(1), new(bool), boolean(true)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			must.Do(t, (Field{test.dest}).Scan(test.src))
			must.Same(t, "scanned", test.want, test.dest, cmp.Comparer(sameTime))
		})
	}
}

func boolean(b bool) *bool { return &b }

func sameTime(a, b time.Time) bool { return a.Equal(b) && a.Location() == b.Location() }

func TestScanRejectsWrongValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		src  any
		dest any
	}{
		{"an id that is too short", make([]byte, 15), &storage.ID{}},
		{"an id of text", "019cb73d-3271-7000-8001-0203040506ff", &storage.ID{}},
		{"an id of text in bytes", []byte("019cb73d-3271-7000-8001-0203040506ff"), &storage.ID{}},
		{"an id of 16 characters", strings.Repeat("0", 16), &storage.ID{}},
		{"an id of a number", int64(1), &storage.ID{}},
		{"a hash that is too long", make([]byte, 17), &storage.Hash{}},
		{"a key of text", strings.Repeat("k", 32), &storage.Key{}},
		{"a time of text", "2026", &time.Time{}},
		{"a number of text", "1", new(int)},
		{"a number of nothing", nil, new(int64)},
		{"a boolean of text", "true", new(bool)},
		{"bytes of a number", int64(1), &[]byte{}},
		{"containers of nothing", nil, new([]string)},
	} {
		must.Match(t, test.name, (Field{test.dest}).Scan(test.src), errColumn)
	}
}

// Scanned bytes belong to the caller, because a driver may reuse its buffer.
func TestScanCopies(t *testing.T) {
	t.Parallel()
	src := []byte("abc")
	var got []byte
	must.Do(t, (Field{&got}).Scan(src))
	src[0] = 'X'
	must.Same(t, "the copy", "abc", string(got))
}

func TestMicrosUp(t *testing.T) {
	t.Parallel()
	for nanos, want := range map[int64]int64{0: 0, 1: 1, 999: 1, 1000: 1, 1001: 2, -1: 0, -1000: -1, -1001: -1} {
		must.Same(t, fmt.Sprintf("%d ns", nanos), want, microsUp(time.Unix(0, nanos)))
	}
}

func TestLogDay(t *testing.T) {
	t.Parallel()
	for micros, want := range map[int64]int64{0: 0, 1: 0, microsPerDay - 1: 0, microsPerDay: 1, -1: -1, -microsPerDay: -1} {
		must.Same(t, fmt.Sprintf("%d us: got day", micros), want, LogDay(time.UnixMicro(micros)))
	}
}
