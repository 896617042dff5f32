package vault

import (
	"context"
	"encoding/json"

	"github.com/seed-72ea4aab/vault/internal/access"
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
	op, err := c.begin(ctx, access.TokenCreate)
	if err != nil {
		return nil, err
	}
	doc, err := op.document(document)
	if err != nil {
		return nil, err
	}
	w := &tokenizer{op: op, single: isRequest(doc), work: maxTokenizeWork}
	w.collect(doc)
	if err := asInvalid(&w.bad); err != nil {
		return nil, err
	}
	for range maxAttempts {
		if err := w.save(ctx); err == errRetry {
			continue
		} else if err != nil {
			return nil, err
		}
		return w.answer(doc)
	}
	return nil, errorf(ErrConflict, "The document could not be tokenized because others were faster; try again.")
}

// tokenizer walks a document twice in the same order: once to draft the
// tokens, and, when they are stored, once to put them in their places.
type tokenizer struct {
	op     *call
	single bool // the document is one token request, which shows a card's mask under mask
	work   int  // what the expressions of all requests may still take
	bad    form.Problems
	places []tokenized
	next   int
}

// maxTokenizeWork bounds the expressions of a whole document, and with them
// what their values, which are kept until the answer is written, take of memory.
const maxTokenizeWork = 128 << 20

// tokenized is what a place of the document became.
type tokenized struct {
	path  string // given where the token's id can be refused
	draft *draft
	same  int    // the place earlier in the document that it duplicates, or -1
	token *Token // where one exists already
}

// isRequest reports whether a value is a token request.
func isRequest(v jsonx.Value) bool {
	return v.Kind() == jsonx.Object && !v.Get("type").IsZero() && !v.Get("data").IsZero()
}

// collect drafts the tokens of a document.
func (w *tokenizer) collect(doc jsonx.Value) {
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
			w.add(p, path)
		case v.Kind() == jsonx.Object || v.Kind() == jsonx.Array:
			return v, true, nil
		case !v.IsNull():
			w.add(TokenParams{Type: Generic, Data: v}, path)
		}
		if len(w.places) > w.op.v.cfg.MaxTokens {
			w.bad = form.Problems{}
			w.bad.Add("", "must have at most %d values to tokenize", w.op.v.cfg.MaxTokens)
			return v, false, asInvalid(&w.bad)
		}
		return v, false, nil
	})
}

func (w *tokenizer) add(p TokenParams, path *jsonx.Path) {
	made := &struct {
		draft
		stored storage.Token
	}{}
	made.row, made.body.work = &made.stored, &w.work
	own := &form.Problems{}
	w.op.draft(&made.draft, p, own)
	place := tokenized{draft: &made.draft}
	if own.Any() {
		w.bad.AddAll(path.String(), own.Fields)
	}
	if p.ID != "" {
		place.path = path.String()
	}
	w.places = append(w.places, place)
}

// save stores all drafts in one change.
func (w *tokenizer) save(ctx context.Context) error {
	ch := w.op.change()
	ch.InsertTokens = make([]storage.Token, 0, len(w.places))
	ch.Logs = make([]storage.Log, 0, len(w.places))
	first := map[storage.Hash]int{} // places by duplicate key
	names := map[string]bool{}      // ids that the document gives
	for i := range w.places {
		p := &w.places[i]
		p.token, p.same = nil, -1
		if err := w.op.mayCreate(p.draft); err != nil {
			return err
		}
		if at, seen := first[p.draft.row.Dedup]; seen {
			p.same = at
			continue
		}
		if p.draft.row.Dedup != (storage.Hash{}) {
			first[p.draft.row.Dedup] = i
		}
		if err := w.savePlace(ctx, p, ch, names); err != nil {
			return err
		}
	}
	if len(ch.InsertTokens) == 0 {
		return nil
	}
	if err := w.op.write(ctx, ch); err != nil {
		return w.resolve(ctx, err)
	}
	return nil
}

// savePlace adds one token to the change, or finds the one it duplicates.
func (w *tokenizer) savePlace(ctx context.Context, p *tokenized, ch *storage.Change, names map[string]bool) error {
	d := p.draft
	if dup, err := w.op.duplicateOf(ctx, &d.token, ""); err != nil || dup != nil {
		p.token, err = w.op.existing(ctx, dup, err)
		return err
	}
	if err := w.op.name(ctx, d, names); err != nil {
		return underPath(p.path, err)
	}
	if p.path != "" {
		names[d.row.ID] = true
	}
	if err := w.op.sealToken(&d.token); err != nil {
		return err
	}
	ch.InsertTokens = append(ch.InsertTokens, *d.row)
	ch.Logs = append(ch.Logs, w.op.entry(opCreate, d.row.Type, d.row.ID))
	return nil
}

// resolve clears away what kept the change from being written, and asks for
// another attempt; or says that it cannot be written.
func (w *tokenizer) resolve(ctx context.Context, err error) error {
	conflict, ok := asConflict(err)
	if !ok {
		return err
	}
	at := -1
	for i := range w.places {
		if p := &w.places[i]; p.token == nil && p.same < 0 {
			if at++; at == conflict.Index {
				d := p.draft
				if err := w.op.makeRoom(ctx, &d.token, d.fixedID != "", err); err != nil {
					return err
				}
				return errRetry
			}
		}
	}
	return err
}

// answer builds the document with tokens in place of values.
func (w *tokenizer) answer(doc jsonx.Value) (JSON, error) {
	out, err := jsonx.Rewrite(doc, func(_ *jsonx.Path, v jsonx.Value) (jsonx.Value, bool, error) {
		switch {
		case isRequest(v):
			tok := w.result()
			tok.Mask = nil
			if w.single && tok.Type == Card {
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
	return jsonx.Parse(text, storedLimits)
}

// result returns the token of the next place.
func (w *tokenizer) result() *Token {
	p := w.nextPlace()
	if p.token == nil {
		p.token = p.draft.created()
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
	return p.draft.row.ID
}

func (w *tokenizer) nextPlace() *tokenized {
	p := &w.places[w.next]
	w.next++
	if p.same >= 0 {
		p = &w.places[p.same]
	}
	return p
}
