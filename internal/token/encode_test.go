package token

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestBodySurvivesItsEncoding encodes bodies whose fields have lengths of
// one, two and three bytes.
func TestBodySurvivesItsEncoding(t *testing.T) {
	t.Parallel()
	yes := true
	for _, n := range []int{0, 1, 117, 118, 125, 126, 127, 128, 1000, 16_380, 16_384, 20_000} {
		text := strings.Repeat("a\"", n/2) + strings.Repeat("b", n%2)
		for name, b := range map[string]Body{
			"data":        {Data: jsonx.StringValue(text)},
			"mask":        {Data: jsonx.NullValue(), Mask: jsonx.StringValue(text), CVCAt: 3},
			"metadata":    {Data: jsonx.NullValue(), Metadata: map[string]string{"z": text, "a": "b"}},
			"indexes":     {Data: jsonx.NullValue(), Indexes: []string{text, "b"}},
			"no indexes":  {Data: jsonx.StringValue(text), Indexes: []string{}, Dedup: &yes},
			"fingerprint": {Data: jsonx.StringValue(text), Fingerprint: text, Dedup: new(bool)},
			"columns":     {Data: jsonx.StringValue(text), Columns: [16]byte{1}, Hashes: []byte(text)},
		} {
			var got Body
			if err := got.Decode(b.Encode([]byte{})); err != nil {
				t.Fatalf("%s of %d: %v", name, n, err)
			}
			if b.Hashes == nil {
				b.Hashes = []byte{} // decoding makes no difference
			}
			must.Same(t, fmt.Sprintf("%s of %d, decoded", name, n), b, got, cmp.AllowUnexported(Body{}))
		}
	}
}

// The buffers of bodies are reused, so no part of a body may stay in a
// buffer.
func TestBodyBuffersAreCleared(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 1000, 10_000} {
		b := Body{Data: jsonx.StringValue(strings.Repeat("4242", n/4))}
		spare := b.Encoded()
		plain := spare.Bytes
		if !bytes.Contains(plain, []byte("4242")) {
			t.Fatal("the body is not in the buffer")
		}
		spare.Wipe()
		if !bytes.Equal(plain, make([]byte, len(plain))) || len(spare.Bytes) > 0 || cap(spare.Bytes) > maxSpare {
			t.Errorf("a body of %d bytes is still in the buffer", n)
		}
	}
}
