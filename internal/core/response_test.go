package core_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestStoredResponseRoundTrip(t *testing.T) {
	t.Parallel()
	notStored := must.Text("a format that this version does not know")
	for name, a := range map[string]core.StoredResponse{
		"nothing":    {},
		"status":     {Status: 204},
		"negative":   {Status: -1},
		"empty body": {Status: 200, Body: []byte{}},
		"one header": {Status: 201, Header: http.Header{"Location": {"/tokens/a"}}, Body: []byte(`{"a":1}`)},
		"uses": {Status: 200, Body: []byte("x"), Depends: core.Depends{Uses: []core.TokenUse{
			{Permission: "token:use", ID: "a", Ord: uuid.New(), Shown: access.Reveal, CVCEnds: time.Date(2031, 1, 2, 3, 4, 5, 6000, time.UTC)},
			{As: uuid.New(), Permission: "token:read", ID: "b", Ord: uuid.New(), Shown: access.Mask}}, Named: make([]byte, 32)}},
		"too many":    {Status: 200, Depends: core.Depends{TooMany: true}},
		"odd headers": {Status: 201, Header: http.Header{"": {"x"}, "A": {"", "b"}, "é": {"\x00ÿ"}}, Body: make([]byte, 300)},
	} {
		encoded := must.Get(json.Marshal(&a))(t)
		var got core.StoredResponse
		must.Match(t, name+", decoded", got.Decode(encoded), nil)
		must.Same(t, name, a, got)
		for n := range encoded {
			var cut core.StoredResponse
			must.Match(t, fmt.Sprintf("%s, cut off after %d bytes", name, n), cut.Decode(encoded[:n]), notStored)
		}
		must.Match(t, name+", with a byte too many", new(core.StoredResponse).Decode(append(encoded, 0)), notStored)
	}
	must.Match(t, "another type", new(core.StoredResponse).Decode([]byte(`{"status":"secret"}`)), notStored)
}

// A run that uses one token many times depends on it once. A run that uses
// too many tokens is marked.
func TestUsesAreBounded(t *testing.T) {
	t.Parallel()
	var uses core.TokenUses
	one := core.TokenUse{Permission: "token:use", ID: "a", Ord: uuid.New()}
	for range 2000 {
		uses.Add(one)
	}
	a := uses.Depends()
	if len(a.Uses) != 1 || a.TooMany {
		t.Errorf("%d uses of one token, too many: %v", len(a.Uses), a.TooMany)
	}
	for range 1000 {
		uses.Add(core.TokenUse{Permission: "token:use", Ord: uuid.New()})
	}
	if !uses.Depends().TooMany {
		t.Error("1,001 tokens are not too many")
	}
}
