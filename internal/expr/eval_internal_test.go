package expr

import (
	"bytes"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// Evaluators are reused, so they must keep nothing of a token.
func TestEvaluatorsKeepNothing(t *testing.T) {
	t.Parallel()
	data := jsonx.ObjectValue(jsonx.Member{Name: "number", Value: jsonx.StringValue("4242424242424242")})
	ev := newEvaluator(Data(data, data, nil))
	tree := must.Get(CompileTree(jsonx.StringValue("<{{ data.number }}>")))(t)
	run := treeRun{ev: ev, rest: tree.templates}
	if err := run.write(tree.source); err != nil {
		t.Fatal(err)
	}
	text := ev.text
	if string(text) != `"<4242424242424242>"` {
		t.Fatalf("the text is %s", text)
	}
	ev.wipe()
	if !bytes.Equal(text, make([]byte, len(text))) {
		t.Error("the evaluator still has the text")
	}
	if !ev.env.data.IsZero() || !ev.env.metadata.IsZero() || len(ev.text) > 0 {
		t.Error("the evaluator still has what it evaluated")
	}
}
