package token

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// bodyVersion is the first byte of an encoded body.
const bodyVersion = 1

// Flags of an encoded body.
const (
	flagIndexes = 1 << iota // the body has search indexes
	flagDedupOn
	flagDedupOff
)

// Encode appends the encoded body: a version, flags, the position of the cvc,
// the fields, and the digest of columns with the hashes. Each field follows
// its length. An absent field has length zero.
func (b *Body) Encode(dst []byte) []byte {
	var flags byte
	if b.Indexes != nil {
		flags |= flagIndexes
	}
	if b.Dedup != nil && *b.Dedup {
		flags |= flagDedupOn
	}
	if b.Dedup != nil && !*b.Dedup {
		flags |= flagDedupOff
	}
	dst = slices.Grow(dst, b.Data.Size()+128)
	dst = append(dst, bodyVersion, flags, byte(b.CVCAt))
	dst = endField(len(dst), b.Data.Append(dst))
	start := len(dst)
	if !b.Mask.IsZero() {
		dst = b.Mask.Append(dst)
	}
	dst = endField(start, dst)
	dst = endField(len(dst), appendMetadata(dst, b.Metadata))
	start = len(dst)
	if len(b.Indexes) > 0 {
		dst = form.TextsValue(b.Indexes).Append(dst)
	}
	dst = endField(start, dst)
	dst = endField(len(dst), append(dst, b.Fingerprint...))
	return append(append(dst, b.Columns[:]...), b.Hashes...)
}

// endField inserts the length of the field that starts at start.
func endField(start int, dst []byte) []byte {
	var length [binary.MaxVarintLen64]byte
	width := binary.PutUvarint(length[:], uint64(len(dst)-start))
	return slices.Insert(dst, start, length[:width]...)
}

// appendMetadata appends metadata as a JSON object, sorted by key.
func appendMetadata(dst []byte, metadata map[string]string) []byte {
	if len(metadata) == 0 {
		return dst
	}
	var few [8]string
	separator := byte('{')
	for _, k := range form.SortedKeys(metadata, few[:0]) {
		dst = jsonx.AppendString(append(dst, separator), k)
		dst = jsonx.AppendString(append(dst, ':'), metadata[k])
		separator = ','
	}
	return append(dst, '}')
}

// ErrBody means that Encode did not write the body.
var ErrBody = errors.New("the sealed body has a format that this version does not know")

// Decode decodes the output of Encode.
func (b *Body) Decode(src []byte) error {
	if len(src) < 3 || src[0] != bodyVersion {
		return ErrBody
	}
	flags := src[1]
	b.CVCAt = int(src[2])
	var fields [5][]byte
	rest := src[3:]
	for i := range fields {
		n, width := binary.Uvarint(rest)
		if width <= 0 || uint64(len(rest)-width) < n {
			return ErrBody
		}
		fields[i], rest = rest[width:width+int(n)], rest[width+int(n):]
	}
	if len(rest) < len(b.Columns) {
		return ErrBody
	}
	b.Columns, b.Hashes = [16]byte(rest), rest[len(b.Columns):]
	if flags&flagIndexes != 0 {
		b.Indexes = []string{}
	}
	if flags&(flagDedupOn|flagDedupOff) != 0 {
		on := flags&flagDedupOn != 0
		b.Dedup = &on
	}
	b.Fingerprint = string(fields[4])
	return b.decodeJSON(fields)
}

func (b *Body) decodeJSON(fields [5][]byte) error {
	var err error
	if b.Data, err = jsonx.Parse(fields[0], stored); err != nil {
		return ErrBody
	}
	if len(fields[1]) > 0 {
		if b.Mask, err = jsonx.Parse(fields[1], stored); err != nil {
			return ErrBody
		}
	}
	if len(fields[2]) > 0 {
		metadata, err := jsonx.Parse(fields[2], stored)
		if err != nil {
			return ErrBody
		}
		b.Metadata = make(map[string]string, metadata.Len())
		for _, m := range metadata.Members() {
			b.Metadata[m.Name] = m.Value.Text()
		}
	}
	if len(fields[3]) > 0 {
		indexes, err := jsonx.Parse(fields[3], stored)
		if err != nil {
			return ErrBody
		}
		for _, e := range indexes.Elems() {
			b.Indexes = append(b.Indexes, e.Text())
		}
	}
	return nil
}

// stored allows every document that was accepted once, also by a merge.
var stored = jsonx.Limits{Depth: 1000}
