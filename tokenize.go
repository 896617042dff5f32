package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/budget"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// Tokenize turns a whole document into tokens and returns the same structure
// with tokens in place of values (permission token:create on each container).
//
// An object that has both type and data is a token request, takes what
// [TokenParams] holds, and becomes a token object with masked data. Every other
// value becomes a generic token, and is replaced by its id. Objects and arrays
// are walked, their keys and order kept; null stays null.
//
// All tokens are created, or none: the error names the path of every value
// that is wrong.
func (c *Client) Tokenize(ctx context.Context, document any) (JSON, error) {
	return run(ctx, c, &verbTokenize, func(ctx context.Context, op *operation) (JSON, error) { return op.tokenizeAll(ctx, document) })
}

func (op *operation) tokenizeAll(ctx context.Context, document any) (JSON, error) {
	doc, err := op.Document(ctx, plainJSON(document))
	if err != nil {
		return nil, err
	}
	if err := admission.Of(ctx).Count(tokensIn(doc, op.Vault.MaxTokens) - 1); err != nil {
		return nil, err
	}
	w := &tokenizer{op: op, single: isRequest(doc), steps: budget.Request(ctx, 0, doc.Size())}
	w.collect(ctx, doc)
	if err := cmp.Or(w.steps.Canceled(), w.stopped, fault.Of(&w.bad)); err != nil {
		return nil, err
	}
	for range core.MaxAttempts {
		if err := w.save(ctx); errors.Is(err, errRetry) {
			continue
		} else if err != nil {
			return nil, err
		}
		return w.answer(doc)
	}
	return nil, fault.New(ErrConflict, "The document could not be tokenized because of concurrent changes; try again.")
}

// tokenizer walks a document twice in the same order: once to prepare the
// tokens, and, when they are stored, once to put them in their places.
type tokenizer struct {
	op     *operation
	single bool // the document is one token request, which shows a card's mask under mask
	steps  *budget.Budget
	bad    form.Problems
	places []tokenized
	next   int

	stopped error // why there was no room for more
}

// tokenized is what a place of the document became.
type tokenized struct {
	path  string // given where the token's id can be refused
	new   *newToken
	same  int    // the place earlier in the document that it duplicates, or -1
	token *Token // where one exists already
}

// isRequest reports whether a value is a token request.
func isRequest(v jsonx.Value) bool {
	return v.Kind() == jsonx.Object && !v.Get("type").IsZero() && !v.Get("data").IsZero()
}

// collect prepares the tokens of a document, until one takes too much.
func (w *tokenizer) collect(ctx context.Context, doc jsonx.Value) {
	_, _ = jsonx.Rewrite(doc, func(path *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		switch {
		case isRequest(v):
			var p TokenParams
			bad := &form.Problems{}
			form.Read(v, "", bad, p.read)
			if bad.Any() {
				w.bad.AddAll(path.String(), bad.Fields)
				return v, false, nil
			}
			w.add(ctx, p, path, v.Size())
		case v.Kind() == jsonx.Object || v.Kind() == jsonx.Array:
			return v, true, nil
		case !v.IsNull():
			w.add(ctx, TokenParams{Type: TypeGeneric, Data: v}, path, 0)
		}
		if len(w.places) > w.op.Vault.MaxTokens {
			w.bad = form.Problems{}
			w.bad.Add("", "must have at most %d values to tokenize", w.op.Vault.MaxTokens)
			return v, false, fault.Of(&w.bad)
		}
		if len(w.places)%core.TurnEvery == 0 {
			w.stopped = cmp.Or(core.Hold(ctx, core.TurnEvery*core.PlaceBytes), core.Turn(ctx))
		}
		return v, false, cmp.Or(w.stopped, w.steps.Err())
	})
}

// tokensIn counts the tokens that a document becomes, up to most and one more.
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
			return v, false, errRetry
		}
		return v, false, nil
	})
	return count
}

// add prepares the token of a request of so many bytes.
func (w *tokenizer) add(ctx context.Context, p TokenParams, path *jsonx.Path, size int) {
	one := &struct { // a token and its row in one piece of memory
		newToken
		stored storage.Token
	}{}
	one.operation, one.row, one.steps = w.op, &one.stored, w.steps
	w.steps.AddToken(0)
	own := &form.Problems{}
	one.prepare(ctx, p, own)
	place := tokenized{new: &one.newToken}
	if own.Any() {
		w.bad.AddAll(path.String(), own.Fields)
		w.steps.Spend(size) // what is wrong may have been compiled and not paid for
	}
	if p.ID != "" {
		place.path = path.String()
	}
	w.places = append(w.places, place)
}

// save stores all new tokens in one change.
func (w *tokenizer) save(ctx context.Context) error {
	ch := w.op.Change()
	ch.InsertTokens = make([]storage.Token, 0, len(w.places))
	ch.Logs = make([]storage.Log, 0, len(w.places))
	first := map[storage.Hash]int{} // places by duplicate key
	names := map[string]bool{}      // ids that the document gives
	for i := range w.places {
		if i%core.TurnEvery == core.TurnEvery-1 {
			if err := core.Turn(ctx); err != nil {
				return err
			}
		}
		p := &w.places[i]
		p.token, p.same = nil, -1
		if err := p.new.mayCreate(); err != nil {
			return err
		}
		if at, seen := first[p.new.row.Dedup]; seen {
			p.same = at
			continue
		}
		if p.new.row.Dedup != (storage.Hash{}) {
			first[p.new.row.Dedup] = i
		}
		if err := w.savePlace(ctx, p, ch, names); err != nil {
			return err
		}
	}
	if len(ch.InsertTokens) == 0 {
		return nil
	}
	err := w.op.Write(ctx, ch)
	if conflict, refused := fault.Guard(err); refused {
		return w.resolve(ctx, conflict)
	}
	return err
}

// savePlace adds one token to the change, or finds the one it duplicates.
func (w *tokenizer) savePlace(ctx context.Context, p *tokenized, ch *storage.Change, names map[string]bool) error {
	n := p.new
	dup, err := w.op.duplicateOf(ctx, &n.clearToken, "")
	if err != nil {
		return err
	}
	if dup != nil {
		p.token, err = w.op.existing(ctx, dup)
		return err
	}
	if err := n.name(ctx, names); err != nil {
		return p.refused(err)
	}
	if p.path != "" {
		names[n.row.ID] = true
	}
	if err := w.op.sealToken(&n.clearToken); err != nil {
		return err
	}
	ch.InsertTokens = append(ch.InsertTokens, *n.row)
	ch.Logs = append(ch.Logs, w.op.Entry(audit.Create, n.row.Type, n.row.ID))
	return nil
}

// resolve clears away what kept the change from being written, and asks for
// another attempt; or says that it cannot be written.
func (w *tokenizer) resolve(ctx context.Context, conflict *storage.Conflict) error {
	at := -1
	for i := range w.places {
		p := &w.places[i]
		if p.token != nil || p.same >= 0 {
			continue // not part of the change
		}
		if at++; at != conflict.Index {
			continue
		}
		if err := w.op.makeRoom(ctx, &p.new.clearToken, p.new.fixedID != "", conflict); err != nil {
			return p.refused(err)
		}
		return errRetry
	}
	return conflict
}

// refused says of an error which place it is about.
func (p *tokenized) refused(err error) error {
	if p.path != "" && errors.Is(err, fault.ErrTokenExists) {
		return &fault.Conflict{Fields: map[string][]string{jsonx.JoinName(p.path, "id"): {"is the id of another token"}}}
	}
	return fault.Under(p.path, err)
}

// answer builds the document with tokens in place of values.
func (w *tokenizer) answer(doc jsonx.Value) (JSON, error) {
	out, err := jsonx.Rewrite(doc, func(_ *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		switch {
		case isRequest(v):
			tok := w.result()
			tok.Mask = nil
			if w.single && tok.Type == TypeCard {
				tok.Mask, tok.Data = tok.Data, nil
			}
			x, err := valueOf(tok)
			return x, false, err
		case v.Kind() == jsonx.Object || v.Kind() == jsonx.Array:
			return v, true, nil
		case v.IsNull():
			return v, false, nil
		default:
			return jsonx.StringValue(w.resultID()), false, nil
		}
	})
	if err != nil {
		return nil, err
	}
	return out.JSON(), nil
}

// valueOf returns the JSON form of a token.
func valueOf(t *Token) (jsonx.Value, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return jsonx.Value{}, err
	}
	return jsonx.Parse(text, stored)
}

// result returns the token of the next place.
func (w *tokenizer) result() *Token {
	p := w.nextPlace()
	if p.token == nil {
		p.token = p.new.created()
	}
	copied := *p.token
	return &copied
}

// resultID returns the id of the token of the next place.
func (w *tokenizer) resultID() string {
	p := w.nextPlace()
	if p.token != nil {
		return p.token.ID
	}
	return p.new.row.ID
}

func (w *tokenizer) nextPlace() *tokenized {
	p := &w.places[w.next]
	w.next++
	if p.same >= 0 {
		p = &w.places[p.same]
	}
	return p
}
