package vault

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/budget"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
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
	return run(ctx, c, &verbDetokenize, func(ctx context.Context, op *operation) (JSON, error) { return op.detokenizeAll(ctx, document) })
}

func (op *operation) detokenizeAll(ctx context.Context, document any) (JSON, error) {
	doc, err := op.Document(ctx, plainJSON(document))
	if err != nil {
		return nil, err
	}
	out, err := op.detokenize(ctx, doc, rootPath)
	if err != nil {
		return nil, err
	}
	if raw, ok := document.(JSON); ok && out == doc {
		return raw, nil // nothing to replace: not a byte is changed
	}
	return out.JSON(), nil
}

// detokenize replaces the expressions of a document. Root is the path of one that
// is the whole document.
func (op *operation) detokenize(ctx context.Context, doc jsonx.Value, root string) (jsonx.Value, error) {
	tree, err := expr.CompileTokenTree(doc)
	if err != nil {
		return doc, fault.Input(err)
	}
	if !tree.HasExpressions() {
		return doc, nil
	}
	used, ids, err := op.findTokens(ctx, tree, root)
	if err == nil {
		err = op.logUses(ctx, used, ids)
	}
	if err != nil {
		return doc, err
	}
	out, err := tree.Eval(used.env(ctx, doc.Size()))
	if err != nil {
		return doc, fault.Input(err)
	}
	return out, nil
}

// usedTokens are the tokens of one request, by id, as the caller may use them.
type usedTokens map[string]*usedToken

type usedToken struct {
	clearToken
	transform access.Transform
	seen      map[bool]jsonx.Value // its data and the whole of it, once asked for
}

// logUses logs that tokens are used.
func (op *operation) logUses(ctx context.Context, used usedTokens, ids []string) error {
	seen := make([]core.Entity, len(ids))
	for i, id := range ids {
		seen[i] = used[id].entity()
	}
	return op.LogReads(ctx, audit.Use, seen...)
}

// expressions are what is to be detokenized: a document, or a body.
type expressions interface {
	Refs() []expr.Ref
	Naming(ids []string) map[string][]string
}

// findTokens reads the tokens that expressions name and asks for token:use on
// each. It returns their ids in the order in which they were named. Root is the
// path of an expression that is the whole of what is detokenized.
func (op *operation) findTokens(ctx context.Context, from expressions, root string) (usedTokens, []string, error) {
	ids := expr.DistinctIDs(from.Refs())
	if len(ids) > maxDetokenized {
		return nil, nil, fault.Field("", "must not name more than %d tokens in one request", maxDetokenized)
	}
	if err := admission.Of(ctx).Count(len(ids) - 1); err != nil {
		return nil, nil, err
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
		if most := op.MaxPageBytes(); size > most && len(ids) > 1 {
			return nil, nil, fault.Field("", "must not name tokens with more than %d bytes in all", most)
		}
		if err := op.use(ctx, rows, used); err != nil {
			return nil, nil, err
		}
	}
	if missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return used[id] != nil }); len(missing) > 0 {
		return nil, nil, missingTokens(from, missing, root)
	}
	return used, ids, nil
}

// missingTokens says where tokens are named that do not exist. An id may hold
// dots, so a path into a token reads as the id of another; who wrote one is told
// how it is written.
func missingTokens(from expressions, missing []string, root string) error {
	whole := map[string]bool{}
	for _, ref := range from.Refs() {
		whole[ref.ID] = whole[ref.ID] || ref.Whole
	}
	bad := &form.Problems{}
	for path, ids := range from.Naming(missing) {
		path = cmp.Or(path, root)
		bad.Add(path, "Failed to detokenize some tokens: %s", strings.Join(ids, ", "))
		for _, id := range ids {
			if token, field, ok := strings.Cut(id, "."); ok && isPath(field) && len(token) >= expr.MinTokenID {
				if whole[id] {
					token = "token: " + token
				}
				bad.Add(path, "did you mean `{{ %s | json: '$.%s' }}`?", token, field)
			}
		}
	}
	return fault.Of(bad)
}

// isPath reports whether a text can be a path into a token: names with dots
// between them.
func isPath(text string) bool {
	for name := range strings.SplitSeq(text, ".") {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			return false
		}
	}
	return true
}

// rootPath is the path of an expression that is a document or a text by itself.
const rootPath = "$"

// use opens rows for expressions, if token:use allows it for each.
func (op *operation) use(ctx context.Context, rows []storage.Token, used usedTokens) error {
	for i := range rows {
		if expiredRow(&rows[i], op.Now) {
			continue
		}
		transform, ok := op.Grant().Decide(access.TokenUse, rows[i].ID, rows[i].Containers)
		if !ok || transform == access.Redact {
			return fault.PermissionOnToken(access.TokenUse)
		}
		t, err := op.openToken(ctx, &rows[i])
		if err != nil {
			return err
		}
		op.noteUse(ctx, access.TokenUse, &t, transform)
		used[rows[i].ID] = &usedToken{t, transform, map[bool]jsonx.Value{}}
	}
	return nil
}

// env gives the expressions of a body the data of tokens, or the whole of them,
// and their budget.
func (u usedTokens) env(ctx context.Context, body int) expr.Env {
	steps := budget.Request(ctx, 0, body)
	for _, t := range u {
		steps.AddToken(t.Data.Size())
	}
	return expr.Env{Budget: steps, Lookup: func(ref expr.Ref) (jsonx.Value, bool) {
		t := u[ref.ID]
		if t == nil {
			return jsonx.Value{}, false
		}
		v, known := t.seen[ref.Whole]
		if !known {
			v = t.see(ctx, ref.Whole)
			t.seen[ref.Whole] = v
		}
		return v, !v.IsZero()
	}}
}

// see returns the token's data, or the whole token, as the caller may see it.
// A request may name one token in thousands of expressions, so it is asked for
// once only.
func (u *usedToken) see(ctx context.Context, whole bool) jsonx.Value {
	if whole {
		return u.whole(ctx)
	}
	return u.shown(ctx, u.transform)
}

// whole returns the token as a document. Its enrichments tell more of a number
// than a mask does, so they are only for a caller that sees the number.
func (u *usedToken) whole(ctx context.Context) jsonx.Value {
	out := u.view(ctx, u.transform)
	if u.transform == access.Reveal {
		out.Enrichments = enrichments(&u.Body)
	}
	v, err := valueOf(out)
	if err != nil {
		return jsonx.Value{}
	}
	return v
}
