package sqlite

import "github.com/seed-72ea4aab/vault/storage"

// The functions below return column values that are NULL when absent. They take
// pointers to avoid copying bytes.

// optionalText returns a text, or NULL if it is empty.
func optionalText(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func optionalID(id *storage.ID) any {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

func optionalHash(h *storage.Hash) any {
	if *h == (storage.Hash{}) {
		return nil
	}
	return h[:]
}

func optionalKey(k *storage.Key) any {
	if k.IsZero() {
		return nil
	}
	return k[:]
}

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

func joinHashes(hashes []storage.Hash) []byte {
	joined := make([]byte, 0, len(hashes)*len(storage.Hash{}))
	for i := range hashes {
		joined = append(joined, hashes[i][:]...)
	}
	return joined
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
