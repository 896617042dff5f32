package sqlite

import "github.com/seed-72ea4aab/vault/storage"

// values are the columns of rows, as parameters. It implements [sqlstore.Put].
type values []any

// Bytes implements [sqlstore.Put].
func (v *values) Bytes(b []byte, null bool) {
	if null {
		*v = append(*v, nil)
	} else {
		*v = append(*v, bytesOf(b))
	}
}

// Text implements [sqlstore.Put].
func (v *values) Text(text string, null bool) {
	if null {
		*v = append(*v, nil)
	} else {
		*v = append(*v, text)
	}
}

// Int implements [sqlstore.Put].
func (v *values) Int(n int64, null bool) {
	if null {
		*v = append(*v, nil)
	} else {
		*v = append(*v, n)
	}
}

// Bool implements [sqlstore.Put].
func (v *values) Bool(b bool) { *v = append(*v, b) }

// optionalID returns an id, or NULL if it is zero.
func optionalID(id *storage.ID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// optional returns bytes, or NULL for nil.
func optional(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// bytesOf returns b, or an empty slice for nil, which would be NULL.
func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func splitHashes(joined []byte) []storage.Hash {
	const size = len(storage.Hash{})
	hashes := make([]storage.Hash, len(joined)/size)
	for i := range hashes {
		copy(hashes[i][:], joined[i*size:])
	}
	return hashes
}

// without returns the hashes that are not in others.
func without(hashes, others []storage.Hash) []storage.Hash {
	skip := make(map[storage.Hash]struct{}, len(others))
	for _, h := range others {
		skip[h] = struct{}{}
	}
	var kept []storage.Hash
	for _, h := range hashes {
		if _, ok := skip[h]; !ok {
			kept = append(kept, h)
		}
	}
	return kept
}
