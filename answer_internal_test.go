package vault

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnswerReadsBack(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]Answer{
		"nothing":     {},
		"status":      {Status: 204},
		"negative":    {Status: -1},
		"empty body":  {Status: 200, Body: []byte{}},
		"one header":  {Status: 201, Header: map[string]string{"Location": "/tokens/a"}, Body: []byte(`{"a":1}`)},
		"odd headers": {Status: 201, Header: map[string]string{"": "x", "A": "", "é": "\x00\xff"}, Body: make([]byte, 300)},
	} {
		encoded := a.encode()
		var got Answer
		if err := got.decode(encoded); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(a, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for n := range encoded {
			var cut Answer
			if err := cut.decode(encoded[:n]); !errors.Is(err, errAnswer) {
				t.Errorf("%s, cut off after %d bytes: %v", name, n, err)
			}
		}
		if err := new(Answer).decode(append(encoded, 0)); !errors.Is(err, errAnswer) {
			t.Errorf("%s, with a byte too many: %v", name, err)
		}
	}
	if err := new(Answer).decode([]byte(`{"status":200}`)); !errors.Is(err, errAnswer) {
		t.Errorf("another version: %v", err)
	}
}
