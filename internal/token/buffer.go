package token

import "sync"

// WithEncoded calls do with the encoded body. Afterwards it clears the memory
// and keeps it for the next body.
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

// maxSpare is the maximum size of a buffer that is kept.
const maxSpare = 4096

// wipe clears the body, which may have outgrown the buffer. It keeps the
// memory if it is not too large.
func (s *buffer) wipe(plain []byte) {
	clear(plain)
	s.bytes = nil
	if cap(plain) <= maxSpare {
		s.bytes = plain[:0]
	}
}
