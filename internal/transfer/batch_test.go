package transfer

import (
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// The size of a batch includes all parts of its rows.
func TestImportBatchesCountWholeRows(t *testing.T) {
	t.Parallel()
	tree := must.Get(jsonx.Parse([]byte("["+strings.Repeat("[],", 100_000)+"[]]"), jsonx.Limits{}))(t)
	long := strings.Repeat("x", 300_000)
	wrong := &form.Problems{}
	wrong.Add(long, "is not known")
	for name, row := range map[string]struct {
		params tokens.Params
		err    error
	}{
		"data":        {params: tokens.Params{Data: long}},
		"mask":        {params: tokens.Params{Mask: tree}},
		"containers":  {params: tokens.Params{Containers: []string{long}}},
		"metadata":    {params: tokens.Params{Metadata: map[string]string{"a": long}}},
		"indexes":     {params: tokens.Params{SearchIndexes: []string{long}}},
		"fingerprint": {params: tokens.Params{FingerprintExpression: long}},
		"id":          {params: tokens.Params{ID: long}},
		"errors":      {err: fault.Of(wrong)},
	} {
		b := &batch{ctx: t.Context()}
		for i := range 4 {
			if b.full() {
				t.Errorf("%s: full after %d rows", name, i)
			}
			must.Do(t, b.add(i, row.params, row.err))
		}
		if !b.full() {
			t.Errorf("%s: not full after 4 rows of 300,000 bytes", name)
		}
	}
}
