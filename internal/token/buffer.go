package token

import "sync"

// Encoded is an encoded body, in memory that is used again.
type Encoded struct{ Bytes []byte }

var spareEncoded = sync.Pool{New: func() any { return &Encoded{make([]byte, 0, 512)} }}

// maxSpare is the maximum size of memory that is kept.
const maxSpare = 4096

// Encoded returns the encoded body. The caller calls Wipe after sealing it.
func (b *Body) Encoded() *Encoded {
	e := spareEncoded.Get().(*Encoded)
	e.Bytes = b.Encode(e.Bytes)
	return e
}

// Wipe clears the body, which must not be used any more.
func (e *Encoded) Wipe() {
	clear(e.Bytes)
	if e.Bytes = e.Bytes[:0]; cap(e.Bytes) > maxSpare {
		e.Bytes = nil
	}
	spareEncoded.Put(e)
}
