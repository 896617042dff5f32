package sqlstore

import (
	"database/sql"
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
	const text = "019cb73d-3271-7000-8001-0203040506ff"
	key := storage.Key{7, 31: 9}
	at := time.Date(2026, 3, 4, 5, 6, 7, 89012000, time.UTC)
	later := at.Add(time.Hour)
	for _, test := range []struct {
		name string
		src  any
		dest sql.Scanner
		want sql.Scanner
	}{
		{"id of bytes", id[:], &idColumn{}, (*idColumn)(&id)},
		{"id of text", text, &idColumn{}, (*idColumn)(&id)},
		{"id of text in bytes", []byte(text), &idColumn{}, (*idColumn)(&id)},
		{"id of capitals", strings.ToUpper(text), &idColumn{}, (*idColumn)(&id)},
		{"no id", nil, &idColumn{9}, &idColumn{}},
		{"hash", id[:], &hashColumn{}, (*hashColumn)(&id)},
		{"no hash", nil, &hashColumn{9}, &hashColumn{}},
		{"key", key[:], &keyColumn{}, (*keyColumn)(&key)},
		{"no key", nil, &keyColumn{9}, &keyColumn{}},
		{"time", at.UnixMicro(), &timeColumn{}, (*timeColumn)(&at)},
		{"no time", nil, (*timeColumn)(&later), &timeColumn{}},
		{"bytes", []byte("abc"), &blobColumn{}, &blobColumn{'a', 'b', 'c'}},
		{"bytes of none", []byte{}, new(blobColumn), &blobColumn{}},
		{"no bytes", nil, &blobColumn{1}, new(blobColumn)},
		{"containers", "/a/,/b/", new(joinedColumn), &joinedColumn{"/a/", "/b/"}},
		{"containers in bytes", []byte("/a/"), new(joinedColumn), &joinedColumn{"/a/"}},
		{"no containers", "", &joinedColumn{"/a/"}, new(joinedColumn)},
		{"boolean", true, new(booleanColumn), boolean(true)},
		{"boolean as a number", int64(1), new(booleanColumn), boolean(true)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			must.Do(t, test.dest.Scan(test.src))
			must.Same(t, "scanned", test.want, test.dest, cmp.Comparer(sameTime))
		})
	}
}

func boolean(b booleanColumn) *booleanColumn { return &b }

func sameTime(a, b timeColumn) bool {
	return time.Time(a).Equal(time.Time(b)) && time.Time(a).Location() == time.Time(b).Location()
}

func TestScanRejectsWrongValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		src  any
		dest sql.Scanner
	}{
		{"an id that is too short", make([]byte, 15), &idColumn{}},
		{"an id of wrong text", "019cb73d-3271-7000-8001-0203040506fx", &idColumn{}},
		{"an id of short text", "019cb73d", &idColumn{}},
		{"an id of 36 other characters", strings.Repeat("0", 36), &idColumn{}},
		{"an id of a number", int64(1), &idColumn{}},
		{"a hash that is too long", make([]byte, 17), &hashColumn{}},
		{"a key of text", strings.Repeat("k", 32), &keyColumn{}},
		{"a time of text", "2026", &timeColumn{}},
		{"a number of text", "1", new(intColumn)},
		{"a number of nothing", nil, new(int64Column)},
		{"a boolean of text", "true", new(booleanColumn)},
		{"bytes of a number", int64(1), &blobColumn{}},
		{"containers of nothing", nil, new(joinedColumn)},
	} {
		must.Match(t, test.name, test.dest.Scan(test.src), errColumn)
	}
}

// Scanned bytes belong to the caller, because a driver may reuse its buffer.
func TestScanCopies(t *testing.T) {
	t.Parallel()
	src := []byte("abc")
	var got blobColumn
	must.Do(t, got.Scan(src))
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
