package vault

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/storage"
)

// maxDetokenized bounds the distinct tokens of one request.
const maxDetokenized = 100

// detokenizedAtOnce is how many of them are read before their size is looked at.
const detokenizedAtOnce = 16

// Detokenize returns a document with its expressions replaced by the data of
// tokens: {{ <id> }}, {{ <id> | filter }}, and {{ token: <id> }} for the whole
// token (permission token:use on each container).
//
// A string that is exactly one expression becomes the value itself; text
// around it makes a string. Object keys are not looked at, and what is inserted
// is not evaluated again. At most 100 distinct tokens can be used at once. An
// id that does not exist is an [InvalidError] that names it.
func (c *Client) Detokenize(ctx context.Context, document any) (JSON, error) {
	op, err := c.begin(ctx, access.TokenUse)
	if err != nil {
		return nil, err
	}
	doc, err := op.document(document)
	if err != nil {
		return nil, err
	}
	out, err := op.detokenize(ctx, doc)
	if err != nil {
		return nil, err
	}
	if raw, ok := document.(JSON); ok && out == doc {
		return raw, nil // nothing to replace: not a byte is changed
	}
	return out.JSON(), nil
}

// detokenize replaces the expressions of a document.
func (op *call) detokenize(ctx context.Context, doc jsonx.Value) (jsonx.Value, error) {
	tree, err := expr.CompileTokenTree(doc)
	if err != nil {
		return doc, invalidErr(err)
	}
	if !tree.HasExpressions() {
		return doc, nil
	}
	tokens, err := op.useTokens(ctx, tree.Refs())
	if err != nil {
		return doc, err
	}
	out, err := tree.Eval(tokens.env())
	if err != nil {
		return doc, invalidErr(err)
	}
	return out, nil
}

// usedTokens are the tokens of one request, by id, as the caller may use them.
type usedTokens map[string]*usedToken

type usedToken struct {
	*token
	transform access.Transform
	seen      map[bool]jsonx.Value // its data and the whole of it, once asked for
}

// useTokens reads the tokens that expressions name, and logs that they are
// used.
func (op *call) useTokens(ctx context.Context, refs []expr.Ref) (usedTokens, error) {
	used, ids, err := op.findTokens(ctx, refs)
	if err != nil {
		return nil, err
	}
	return used, op.logUses(ctx, used, ids)
}

// logUses logs that tokens are used.
func (op *call) logUses(ctx context.Context, used usedTokens, ids []string) error {
	seen := make([]entity, len(ids))
	for i, id := range ids {
		seen[i] = used[id].entity()
	}
	return op.logReads(ctx, opUse, seen...)
}

// findTokens reads the tokens that expressions name and asks for token:use on
// each. It returns their ids in the order in which they were named.
func (op *call) findTokens(ctx context.Context, refs []expr.Ref) (usedTokens, []string, error) {
	ids := distinctIDs(refs)
	if len(ids) > maxDetokenized {
		return nil, nil, invalid("", "must not name more than %d tokens in one request", maxDetokenized)
	}
	used := usedTokens{}
	size := 0
	for piece := range slices.Chunk(ids, detokenizedAtOnce) {
		rows, err := op.rows(ctx, piece)
		if err != nil {
			return nil, nil, err
		}
		for i := range rows {
			size += len(rows[i].Body)
		}
		if most := op.maxPageBytes(); size > most && len(ids) > 1 {
			return nil, nil, invalid("", "must not name tokens that hold more than %d bytes in all", most)
		}
		if err := op.use(ctx, rows, used); err != nil {
			return nil, nil, err
		}
	}
	if missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return used[id] != nil }); len(missing) > 0 {
		return nil, nil, invalid("", "Failed to detokenize some tokens: %s", strings.Join(missing, ", "))
	}
	return used, ids, nil
}

// use opens rows for expressions, if token:use allows it for each.
func (op *call) use(ctx context.Context, rows []storage.Token, used usedTokens) error {
	for i := range rows {
		if expiredRow(&rows[i], op.now) {
			continue
		}
		transform, ok := op.grant.Decide(access.TokenUse, rows[i].ID, rows[i].Containers)
		if !ok || transform == access.Redact {
			return errForbiddenToken(access.TokenUse)
		}
		t, err := op.openToken(ctx, &rows[i])
		if err != nil {
			return err
		}
		used[rows[i].ID] = &usedToken{&t, transform, map[bool]jsonx.Value{}}
	}
	return nil
}

func distinctIDs(refs []expr.Ref) []string {
	var ids []string
	known := map[string]bool{}
	for _, r := range refs {
		if !known[r.ID] {
			known[r.ID] = true
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// env gives expressions the data of tokens, or the whole of them.
func (u usedTokens) env() expr.Env {
	return expr.Env{Lookup: func(ref expr.Ref) (jsonx.Value, bool) {
		t := u[ref.ID]
		if t == nil {
			return jsonx.Value{}, false
		}
		v, known := t.seen[ref.Whole]
		if !known {
			v = t.see(ref.Whole)
			t.seen[ref.Whole] = v
		}
		return v, !v.IsZero()
	}}
}

// see returns the token's data, or the whole token, as the caller may see it.
// A request may name one token in thousands of expressions, so it is asked for
// once only.
func (u *usedToken) see(whole bool) jsonx.Value {
	if whole {
		return u.whole()
	}
	return u.shown(u.transform)
}

// whole returns the token as a document. Its enrichments tell more of a number
// than a mask does, so they go only to who sees the number.
func (u *usedToken) whole() jsonx.Value {
	out := u.view(u.transform)
	if u.transform == access.Reveal {
		out.Enrichments = enrich(u.token)
	}
	v, err := valueOf(out)
	if err != nil {
		return jsonx.Value{}
	}
	return v
}
