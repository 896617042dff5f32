package sqlstore

import (
	"bytes"
	"strings"
	"time"

	"golang.org/x/text/cases"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// Scan scans a row of a driver into the same number of fields.
func Scan(row direct.Row, dest []Field) error {
	if len(row) != len(dest) {
		return errColumn
	}
	for i, field := range dest {
		if err := field.Scan(row[i]); err != nil {
			return err
		}
	}
	return nil
}

// into returns a function that scans rows into fields.
func into(dest []Field) func(direct.Row) error {
	return func(row direct.Row) error { return Scan(row, dest) }
}

var errColumn = storage.ErrMalformed

// Field has a pointer to a field of a row, into which a column is scanned. A []string
// is joined with commas in its column. Field does without the reflection that
// database/sql needs for unknown types.
type Field struct{ to any }

type (
	// optionalText is a text that may be NULL.
	optionalText string
	// mac is a hash. A value of the wrong length becomes a value that no row has,
	// because a row that someone tampered with must not keep others from being read.
	mac storage.Hash
	// loose is another field. A value of the wrong type or length sets malformed
	// instead of ending the query.
	loose struct {
		Field
		malformed *bool
	}
)

// Scan implements [sql.Scanner].
func (f Field) Scan(src any) error {
	raw, isRaw := src.([]byte)
	n, isInt := src.(int64)
	ok := true
	switch to := f.to.(type) {
	case *storage.ID:
		ok = copyFixed(to[:], src)
	case *storage.Hash:
		ok = copyFixed(to[:], src)
	case *storage.Key:
		ok = copyFixed(to[:], src)
	case *mac:
		if !copyFixed(to[:], src) {
			copy(to[:], bytes.Repeat([]byte{0xff}, len(to)))
		}
	case *time.Time:
		if *to, ok = (time.Time{}), isInt || src == nil; isInt {
			*to = time.UnixMicro(n).UTC()
		}
	case *int:
		*to, ok = int(n), isInt
	case *int64:
		*to, ok = n, isInt
	case *bool:
		yes, isBool := src.(bool)
		*to, ok = yes || n != 0, isBool || isInt
	case *[]byte: // NULL is nil, which differs from an empty value
		if *to, ok = nil, isRaw || src == nil; isRaw {
			*to = append(make([]byte, 0, len(raw)), raw...)
		}
	case loose:
		*to.malformed = to.Field.Scan(src) != nil || *to.malformed
	default:
		ok = f.scanText(src)
	}
	if !ok {
		return errColumn
	}
	return nil
}

func (f Field) scanText(src any) bool {
	text, ok := textOf(src)
	switch to := f.to.(type) {
	case *string:
		*to = text
	case *optionalText:
		*to, ok = optionalText(text), ok || src == nil
	case *[]string:
		if *to = nil; text != "" {
			*to = strings.Split(text, ",")
		}
	default:
		return false
	}
	return ok
}

func textOf(src any) (string, bool) {
	switch v := src.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}

// copyFixed fills dst from a column of exactly its length. NULL becomes zeros.
func copyFixed(dst []byte, src any) bool {
	if src == nil {
		clear(dst)
		return true
	}
	v, ok := src.([]byte)
	return ok && len(v) == len(dst) && copy(dst, v) == len(dst)
}

// Micros returns the value of a time column: NULL for a zero time.
func Micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// microsUp returns the first microsecond that is not before t. Columns hold
// whole microseconds. So "at or after t" and "before t" compare with it, while
// "at or before t" and "after t" compare with t.UnixMicro.
func microsUp(t time.Time) int64 {
	micros := t.UnixMicro()
	if t.Nanosecond()%int(time.Microsecond) != 0 {
		micros++
	}
	return micros
}

// JoinContainers returns the value of a containers column.
func JoinContainers(containers []string) string { return strings.Join(containers, ",") }

// FoldName returns the value of a name_fold column. Names that differ only in
// case have the same value.
func FoldName(name string) string { return cases.Fold().String(name) }
