package tokens

import (
	"cmp"
	"context"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/token"
)

// Tokenize creates tokens for a whole document, and returns the same
// structure with tokens in place of values. It creates all tokens or none.
func Tokenize(ctx context.Context, op *core.Op, document any) ([]byte, error) {
	doc, err := op.Document(ctx, document)
	if err != nil {
		return nil, err
	}
	if err := admission.Of(ctx).Count(tokensIn(doc, op.Vault.MaxTokens) - 1); err != nil {
		return nil, err
	}
	w := &tokenizer{op: op, single: isRequest(doc), steps: admission.RequestBudget(ctx, 0, doc.Size()), batch: NewBatch(op, 0)}
	w.batch.Refused = w.refused
	w.collect(ctx, doc)
	if err := cmp.Or(w.steps.Canceled(), w.stopped, fault.Of(&w.bad)); err != nil {
		return nil, err
	}
	for i := range w.values {
		if err := w.batch.Add(w.values[i].item); err != nil {
			return nil, err
		}
	}
	if err := w.batch.Save(ctx); err != nil {
		return nil, err
	}
	if err := w.readExisting(ctx); err != nil {
		return nil, err
	}
	return w.answer(doc)
}

// tokenizer walks a document twice in the same order: first to prepare the
// tokens, and after they are stored, to put them in their positions.
type tokenizer struct {
	op     *core.Op
	batch  *Batch
	single bool // the document is one token request; the mask of a card is then under mask
	steps  *admission.Budget
	bad    form.Problems
	values []value
	next   int

	stopped error // why there was no room for more
}

// value is a value in the document that becomes a token.
type value struct {
	item  *Item
	path  string // set if the token's id can be rejected
	token *Token // set when it is known
}

// isRequest reports whether a value is a token request.
func isRequest(v jsonx.Value) bool {
	return v.Kind() == jsonx.Object && !v.Get("type").IsZero() && !v.Get("data").IsZero()
}

// collect prepares the tokens of a document, until the budget is used up.
func (w *tokenizer) collect(ctx context.Context, doc jsonx.Value) {
	_, _ = jsonx.Rewrite(doc, func(path *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		switch {
		case isRequest(v):
			var p Params
			bad := &form.Problems{}
			form.Read(v, "", bad, p.Read)
			if bad.Any() {
				w.bad.AddAll(path.String(), bad.Fields)
				return v, false, nil
			}
			w.add(ctx, &p, path, v.Size())
		case v.Kind() == jsonx.Object || v.Kind() == jsonx.Array:
			return v, true, nil
		case !v.IsNull():
			w.add(ctx, &Params{Type: token.Generic, Data: v}, path, 0)
		}
		most := w.op.Vault.MaxTokens
		if len(w.values) > most {
			w.bad = form.Problems{}
			w.bad.Add("", "must have at most %d values to tokenize", most)
			return v, false, fault.Of(&w.bad)
		}
		if len(w.values)%core.TurnEvery == 0 {
			w.stopped = cmp.Or(core.Reserve(ctx, core.TurnEvery*core.SmallToken), core.Turn(ctx))
		}
		return v, false, cmp.Or(w.stopped, w.steps.Err())
	})
}

// errEnough ends the count of a document's tokens.
var errEnough = errors.New("enough")

// tokensIn counts the tokens of a document, up to most plus one.
func tokensIn(doc jsonx.Value, most int) int {
	count := 0
	_, _ = jsonx.Rewrite(doc, func(_ *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		switch {
		case isRequest(v):
			count++
		case v.Kind() == jsonx.Object || v.Kind() == jsonx.Array:
			return v, true, nil
		case !v.IsNull():
			count++
		}
		if count > most {
			return v, false, errEnough
		}
		return v, false, nil
	})
	return count
}

// add prepares the token of a request with the given number of bytes.
func (w *tokenizer) add(ctx context.Context, p *Params, path *jsonx.Path, size int) {
	w.steps.AddToken(0)
	at := value{item: &Item{Index: len(w.values)}}
	own := &form.Problems{}
	w.batch.Prepare(ctx, at.item, p, w.steps, own)
	if own.Any() {
		w.bad.AddAll(path.String(), own.Fields)
		w.steps.Spend(size) // compiling bad expressions was not charged
	}
	if p.ID != "" {
		at.path = path.String()
	}
	w.values = append(w.values, at)
}

// refused moves an error below the path of its value.
func (w *tokenizer) refused(n *Item, err error) error {
	path := w.values[n.Index].path
	if path != "" && errors.Is(err, fault.ErrTokenExists) {
		return &fault.Conflict{Fields: map[string][]string{jsonx.JoinName(path, "id"): {"is the id of another token"}}}
	}
	return fault.Under(path, err)
}

// readExisting reads the tokens that already existed.
func (w *tokenizer) readExisting(ctx context.Context) error {
	for i := range w.values {
		p := &w.values[i]
		if p.item.Existing == nil {
			continue
		}
		tok, err := existing(ctx, w.op, p.item.Existing)
		if err != nil {
			return err
		}
		p.token = &tok
	}
	return nil
}

// answer builds the document with tokens in place of values.
func (w *tokenizer) answer(doc jsonx.Value) ([]byte, error) {
	out, err := jsonx.Rewrite(doc, func(_ *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		switch {
		case isRequest(v):
			tok := w.token()
			tok.Mask = nil
			if w.single && tok.Type == token.Card {
				tok.Mask, tok.Data = tok.Data, nil
			}
			x, err := tok.Value()
			return x, false, err
		case v.Kind() == jsonx.Object || v.Kind() == jsonx.Array:
			return v, true, nil
		case v.IsNull():
			return v, false, nil
		default:
			return jsonx.StringValue(w.id()), false, nil
		}
	})
	if err != nil {
		return nil, err
	}
	return out.JSON(), nil
}

// token returns the token of the next value.
func (w *tokenizer) token() Token {
	p := w.nextValue()
	if p.token == nil {
		tok := p.item.Created()
		p.token = &tok
	}
	return *p.token
}

// id returns the id of the token of the next value.
func (w *tokenizer) id() string {
	p := w.nextValue()
	if p.token != nil {
		return p.token.ID
	}
	return p.item.Row.ID
}

func (w *tokenizer) nextValue() *value {
	p := &w.values[w.next]
	w.next++
	if p.item.Same != nil {
		p = &w.values[p.item.Same.Index]
	}
	return p
}
