package wire

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// ForAnyDriver appends the rows as parameters that any driver understands: scalars
// as Go values, and arrays in the server's text format. The binary format works
// only on connections opened for it.
func (r *Rows) ForAnyDriver(args []any) []any {
	for i, c := range r.Columns {
		if r.Many() {
			args = append(args, ArrayText(r.Arrays[i].Value()))
		} else {
			args = append(args, scalarOf(c.Kind, r.Scalars[i]))
		}
	}
	return args
}

// scalarOf returns the Go value of a parameter in the binary format.
func scalarOf(k sqlstore.Kind, v any) any {
	raw, ok := v.([]byte)
	if !ok {
		return v // NULL
	}
	switch k {
	case sqlstore.Text:
		return string(raw)
	case sqlstore.Int:
		return int64(binary.BigEndian.Uint64(raw))
	case sqlstore.Bool:
		return raw[0] == 1
	default:
		return raw
	}
}

// ArrayText converts an array from the binary format to text.
func ArrayText(raw []byte) string {
	const elements = arrayHeader
	if len(raw) < elements {
		return "{}" // it has no dimensions
	}
	oid, text := binary.BigEndian.Uint32(raw[8:]), []byte("{")
	for rest := raw[elements:]; len(rest) > 0; {
		if len(text) > 1 {
			text = append(text, ',')
		}
		size := binary.BigEndian.Uint32(rest)
		rest = rest[4:]
		if size == nullElement {
			text = append(text, "NULL"...)
			continue
		}
		text, rest = appendElement(text, oid, rest[:size]), rest[size:]
	}
	return string(append(text, '}'))
}

var inArray = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func appendElement(text []byte, oid uint32, raw []byte) []byte {
	switch oid {
	case oidInt8:
		return strconv.AppendInt(text, int64(binary.BigEndian.Uint64(raw)), 10)
	case oidBool:
		return strconv.AppendBool(text, raw[0] == 1)
	case oidText:
		return append(append(append(text, '"'), inArray.Replace(string(raw))...), '"')
	default: // bytes
		return append(hex.AppendEncode(append(text, `"\\x`...), raw), '"')
	}
}
