package sqlstore

import (
	"database/sql"
	"encoding/hex"
	"strings"
	"time"

	"golang.org/x/text/cases"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// Scan scans a row of a driver into the same number of columns.
func Scan(row direct.Row, dest []sql.Scanner) error {
	if len(row) != len(dest) {
		return errColumn
	}
	for i, column := range dest {
		if err := column.Scan(row[i]); err != nil {
			return err
		}
	}
	return nil
}

// into returns a function that scans rows into columns.
func into(dest []sql.Scanner) func(direct.Row) error {
	return func(row direct.Row) error { return Scan(row, dest) }
}

var errColumn = storage.ErrMalformed

// The types below scan a column directly into a field of a row, without the
// reflection that database/sql needs for unknown types.
type (
	idColumn           storage.ID
	hashColumn         storage.Hash
	keyColumn          storage.Key
	macColumn          storage.Hash
	timeColumn         time.Time
	intColumn          int
	int64Column        int64
	textColumn         string
	optionalTextColumn string
	blobColumn         []byte
	joinedColumn       []string
	booleanColumn      bool
)

func (c *idColumn) Scan(src any) error {
	if text, ok := uuidText(src); ok {
		return parseUUID((*storage.ID)(c), text)
	}
	return copyFixed(c[:], src)
}

func (c *hashColumn) Scan(src any) error { return copyFixed(c[:], src) }
func (c *keyColumn) Scan(src any) error  { return copyFixed(c[:], src) }

// Scan replaces a value of the wrong length with a value that no row has. A row
// that someone tampered with must not keep others from being read.
func (c *macColumn) Scan(src any) error {
	if src == nil {
		*c = macColumn{}
		return nil
	}
	if v, ok := src.([]byte); ok && len(v) == len(c) {
		copy(c[:], v)
		return nil
	}
	for i := range c {
		c[i] = 0xff
	}
	return nil
}

func (c *timeColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c = timeColumn{}
	case int64:
		*c = timeColumn(time.UnixMicro(v).UTC())
	default:
		return errColumn
	}
	return nil
}

func (c *intColumn) Scan(src any) error   { return scanNumber(c, src) }
func (c *int64Column) Scan(src any) error { return scanNumber(c, src) }

func scanNumber[N ~int | ~int64](c *N, src any) error {
	v, ok := src.(int64)
	if !ok {
		return errColumn
	}
	*c = N(v)
	return nil
}

func (c *booleanColumn) Scan(src any) error {
	switch v := src.(type) {
	case bool:
		*c = booleanColumn(v)
	case int64:
		*c = v != 0
	default:
		return errColumn
	}
	return nil
}

// Scan distinguishes NULL, which is nil, from an empty value.
func (c *blobColumn) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*c = nil
	case []byte:
		*c = append(make([]byte, 0, len(v)), v...)
	default:
		return errColumn
	}
	return nil
}

func (c *textColumn) Scan(src any) error {
	switch v := src.(type) {
	case string:
		*c = textColumn(v)
	case []byte:
		*c = textColumn(v)
	default:
		return errColumn
	}
	return nil
}

// Scan reads a text that may be NULL.
func (c *optionalTextColumn) Scan(src any) error {
	if src == nil {
		*c = ""
		return nil
	}
	return (*textColumn)(c).Scan(src)
}

func (c *joinedColumn) Scan(src any) error {
	var text textColumn
	if err := text.Scan(src); err != nil {
		return err
	}
	*c = nil
	if text != "" {
		*c = strings.Split(string(text), ",")
	}
	return nil
}

// copyFixed fills dst from a column of exactly its length. NULL becomes zeros.
func copyFixed(dst []byte, src any) error {
	switch v := src.(type) {
	case nil:
		clear(dst)
	case []byte:
		if len(v) != len(dst) {
			return errColumn
		}
		copy(dst, v)
	default:
		return errColumn
	}
	return nil
}

const uuidTextLen = 36

func uuidText(src any) (string, bool) {
	switch v := src.(type) {
	case string:
		return v, true
	case []byte:
		if len(v) == uuidTextLen {
			return string(v), true
		}
	}
	return "", false
}

func parseUUID(id *storage.ID, text string) error {
	digits := strings.ReplaceAll(text, "-", "")
	if len(text) != uuidTextLen || len(digits) != 2*len(id) {
		return errColumn
	}
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return errColumn
	}
	return nil
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
