package node

import (
	"encoding/json"
	"testing"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// FuzzBuildJSON compares the builder with encoding/json, and reads again what
// it has built.
func FuzzBuildJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.5,-0,1e5,true,false,null,"x\n\u00e9\ud83d\ude00"]}`, `{"__proto__":1}`, `[[[]]]`, `"\ud800"`, `-`, `1.`, `01`, `+1`, `.5`, `1e`, `-0.5e-7`, `--1`, `{"a":1,"a":2}`, `[1,]`, ``, `nul`, `"\x"`, `{"1":1,"0":2}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := newExecution(&compile.Code{}, nil, Limits{MaxOutput: 1 << 20})
		v, err := native.BuildJSON(c.VM, []byte(text))
		if explained := native.JSONError(c.VM, []byte(text)) != ""; err != nil && explained == json.Valid([]byte(text)) || err == nil && !json.Valid([]byte(text)) {
			t.Errorf("%q: got error %v, explained %v, encoding/json accepts it: %v", text, err, explained, json.Valid([]byte(text)))
		}
		if err != nil {
			return
		}
		out, bad := c.encode(v)
		if bad != nil {
			return
		}
		again, err := native.BuildJSON(c.VM, out)
		if err != nil {
			t.Fatalf("%s was written as %s, which cannot be read", text, out)
		}
		if twice, _ := c.encode(again); string(twice) != string(out) {
			t.Errorf("%s, read and written again: %s", out, twice)
		}
	})
}
