package vault

import (
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// A batch is full by all that its rows hold, whatever part of a row that is in.
func TestImportBatchesCountWholeRows(t *testing.T) {
	t.Parallel()
	tree, err := jsonx.Parse([]byte("["+strings.Repeat("[],", 100_000)+"[]]"), jsonx.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 300_000)
	wrong := &form.Problems{}
	wrong.Add(long, "is not known")
	for name, row := range map[string]struct {
		params TokenParams
		err    error
	}{
		"data":        {params: TokenParams{Data: long}},
		"mask":        {params: TokenParams{Mask: tree}},
		"containers":  {params: TokenParams{Containers: []string{long}}},
		"metadata":    {params: TokenParams{Metadata: map[string]string{"a": long}}},
		"indexes":     {params: TokenParams{SearchIndexes: []string{long}}},
		"fingerprint": {params: TokenParams{FingerprintExpression: long}},
		"id":          {params: TokenParams{ID: long}},
		"errors":      {err: fault.Of(wrong)},
	} {
		b := &importBatch{ctx: t.Context()}
		for i := range 4 {
			if b.full() {
				t.Errorf("%s: full after %d rows", name, i)
			}
			if err := b.add(i, row.params, row.err); err != nil {
				t.Fatal(err)
			}
		}
		if !b.full() {
			t.Errorf("%s: not full after 4 rows of 300,000 bytes", name)
		}
	}
}
