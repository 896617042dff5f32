package token

import "sync"

// WithEncoded calls do with the encoded body. Its memory is cleared afterwards,
// and kept for the next body.
func (b *Body) WithEncoded(do func(plain []byte) error) error {
	spare := spareBuffers.Get().(*buffer)
	plain := b.Encode(spare.bytes)
	defer func() {
		spare.wipe(plain)
		spareBuffers.Put(spare)
	}()
	return do(plain)
}

// buffer holds an encoded body until it is sealed.
type buffer struct{ bytes []byte }

var spareBuffers = sync.Pool{New: func() any { return &buffer{make([]byte, 0, 512)} }}

// maxSpare bounds the memory that is kept for the next body.
const maxSpare = 4096

// wipe clears the body, which may have outgrown the buffer, and keeps its
// memory, unless that is much.
func (s *buffer) wipe(plain []byte) {
	clear(plain)
	s.bytes = nil
	if cap(plain) <= maxSpare {
		s.bytes = plain[:0]
	}
}
