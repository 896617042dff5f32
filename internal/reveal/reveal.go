// Package reveal replaces expressions by the data of tokens. It reads the
// tokens that a document names, checks the permission to use them, and logs
// the uses.
//
// It promises that data leaves only after its use was logged, that a request names at
// most [MaxTokens] tokens, and that the caller's rule decides for each token where its
// data may go: back to the caller, or only to certain destinations. Then the caller of
// this package must remove the data from the response; [Used.Sent] has it.
//
// It rests on package expr for the expressions and on package tokens for the rows.
// Begin with [Detokenize], which has all steps. Proxies and runs call [Find] instead,
// because they decide between the steps where the data goes.
package reveal

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
)

// Root is the path of an expression that is a whole document or text.
const Root = "$"

// MaxTokens is the maximum number of distinct tokens of one request. AtOnce
// is how many of them are read before their size is checked.
const (
	MaxTokens = 100
	AtOnce    = 16
)

// Detokenize replaces the expressions of a document that the caller or code
// sees. Root is the path of an expression that is the whole document.
func Detokenize(ctx context.Context, op *core.Op, doc jsonx.Value, root string) (jsonx.Value, error) {
	tree, err := expr.CompileTokenTree(doc)
	if err != nil {
		return doc, fault.Input(err)
	}
	if !tree.HasExpressions() {
		return doc, nil
	}
	used, err := Find(ctx, op, tree, root, access.Target{})
	if err == nil {
		err = used.Log(ctx, op)
	}
	if err != nil {
		return doc, err
	}
	out, err := tree.Eval(used.Env(ctx, doc.Size()))
	if err != nil {
		return doc, fault.Input(err)
	}
	return out, nil
}

// Expressions is a document or a body with expressions.
type Expressions interface {
	Refs() []expr.Ref
	Naming(ids []string) map[string][]string
}

// Used holds the tokens that expressions name, as far as the caller may use
// them.
type Used struct {
	ids     []string // in the order of their first expression
	byID    map[string]*usedToken
	to      access.Target
	results []Text
	refused error // an expression takes data apart that is sent without being seen
}

type usedToken struct {
	tokens.Clear
	access.Decision
	seen  map[bool]jsonx.Value // the data and the whole token, once computed
	names bool                 // member names of the data were inserted
}

// Text is a text that belongs to a token. It is Free if the sender chose it, up to a
// short value that is not searched for on its own.
type Text struct {
	Token, Text string
	Free        bool
}

// Find reads the tokens that expressions name, and checks that token:use lets
// their data go to the target. Root is the path in problems with an expression
// that is the whole input.
func Find(ctx context.Context, op *core.Op, from Expressions, root string, to access.Target) (*Used, error) {
	used := &Used{ids: expr.DistinctIDs(from.Refs()), byID: map[string]*usedToken{}, to: to}
	if len(used.ids) > MaxTokens {
		return nil, fault.Field("", "must not name more than %d tokens in one request", MaxTokens)
	}
	if err := admission.Of(ctx).Count(len(used.ids) - 1); err != nil {
		return nil, err
	}
	size := 0
	for piece := range slices.Chunk(used.ids, AtOnce) {
		rows, err := tokens.Rows(ctx, op, piece)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			size += len(rows[i].Body)
		}
		if most := op.MaxPageBytes(); size > most && len(used.ids) > 1 {
			return nil, fault.Field("", "must not name tokens with more than %d bytes in all", most)
		}
		if err := used.open(ctx, op, rows); err != nil {
			return nil, err
		}
	}
	isThere := func(id string) bool { return used.byID[id] != nil }
	if missing := slices.DeleteFunc(slices.Clone(used.ids), isThere); len(missing) > 0 {
		return nil, missingTokens(from, missing, root)
	}
	return used, nil
}

// open decrypts rows for expressions, if token:use allows it for each.
func (u *Used) open(ctx context.Context, op *core.Op, rows []storage.Token) error {
	for i := range rows {
		if tokens.Expired(&rows[i], op.Now) {
			continue
		}
		d := op.Grant().DecideTo(access.TokenUse, rows[i].ID, rows[i].Containers, u.to)
		if d.Transform <= access.Redact {
			return u.forbidden(d)
		}
		t, err := tokens.Open(ctx, op, &rows[i])
		if err != nil {
			return err
		}
		u.byID[rows[i].ID] = &usedToken{t, d, map[bool]jsonx.Value{}, false}
	}
	return nil
}

// forbidden returns the error for a token that must not be used, or not here.
func (u *Used) forbidden(d access.Decision) error {
	if d.To == nil {
		return fault.PermissionOnToken(access.TokenUse)
	}
	err := fault.LimitedTo(d.To.String())
	if len(d.To.Common()) == 0 {
		err = fault.New(fault.ErrForbidden, "this token cannot be used, because the rules for it have no destination in common: %s", d.To.Each())
	}
	return fault.ForHost(err, u.to.Host)
}

// Bound reports whether the data of a token may be sent to the target but not
// seen by the caller.
func (u *Used) Bound() bool { return u.has(true) }

// Unbound reports whether the caller may also see the data of one of the tokens.
func (u *Used) Unbound() bool { return u.has(false) }

func (u *Used) has(bound bool) bool {
	for _, t := range u.byID {
		if bound == (t.To != nil) {
			return true
		}
	}
	return false
}

// Refused returns an error if an evaluation failed because an expression would
// take apart the data of a bound token.
func (u *Used) Refused() error { return u.refused }

// Sent returns the texts that must not come back to the caller: the strings and
// numbers in the data of bound tokens, and the results of their expressions. The
// names of members belong to them if an expression inserted an object, and so does
// the rest of a token if an expression names the whole token. Text that can be read
// as a float is also there as programs write that float, and text with white space
// around it also without. Texts of fewer than six characters are left out, because
// they occur anywhere. Sent is complete after the evaluation.
func (u *Used) Sent() []Text {
	var all []Text
	for _, id := range u.ids {
		t := u.byID[id]
		if t.To == nil {
			continue
		}
		add := func(text string) { all = addText(all, Text{Token: id, Text: text}) }
		names := t.names && t.Row.Type == token.Generic // other types name their members themselves
		eachText(t.Plain(), names, add)
		for _, m := range t.seen[true].Members() {
			if !slices.Contains(public, m.Name) {
				eachText(m.Value, m.Name == "metadata", add)
			}
		}
	}
	for _, r := range u.results {
		all = addText(all, r)
	}
	return all
}

// public are the members of a token that every caller sees who may use it.
var public = []string{"id", "type", "tenant_id", "containers", "transform"}

// addText adds the forms of a text that are long enough. A float without a fraction
// has the most forms. The integer part of another is no form, because it could be
// guessed before the fraction.
func addText(all []Text, t Text) []Text {
	forms := []string{t.Text, strings.TrimSpace(t.Text)}
	if n, err := strconv.ParseFloat(forms[1], 64); err == nil {
		short := strconv.FormatFloat(n, 'g', -1, 64)
		forms = append(forms, strconv.FormatFloat(n, 'f', -1, 64), short, strings.Replace(short, "e+", "E", 1), strings.ToUpper(short))
		if n == math.Trunc(n) {
			forms = append(forms, strconv.FormatFloat(n, 'f', 0, 64))
		}
	}
	for i, form := range forms {
		if utf8.RuneCountInString(form) >= expr.ShortLeaf && !slices.Contains(forms[:i], form) {
			all = append(all, Text{t.Token, form, t.Free})
		}
	}
	return all
}

// eachText calls found with each string and number of a value, and with the names of
// members if they count.
func eachText(v jsonx.Value, names bool, found func(string)) {
	switch v.Kind() {
	case jsonx.String, jsonx.Number:
		found(v.Text())
	case jsonx.Array:
		for _, e := range v.Elems() {
			eachText(e, names, found)
		}
	case jsonx.Object:
		for _, m := range v.Members() {
			if names {
				found(m.Name)
			}
			eachText(m.Value, names, found)
		}
	default:
	}
}

// missingTokens returns an error that lists the expressions with tokens that
// do not exist. An id may contain dots, so a path into a token looks like an
// id. The message then shows how to write such a path.
func missingTokens(from Expressions, missing []string, root string) error {
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

// isPath reports whether a text can be a path into a token: names separated
// by dots.
func isPath(text string) bool {
	for name := range strings.SplitSeq(text, ".") {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			return false
		}
	}
	return true
}

// Log logs the use of the other entities, and then of the tokens.
func (u *Used) Log(ctx context.Context, op *core.Op, also ...core.Entity) error {
	seen := slices.Clone(also)
	for _, id := range u.ids {
		t, sent := u.byID[id], access.Target{}
		if t.To != nil {
			sent = u.to
		}
		e := t.Seen(ctx, op, access.TokenUse, t.Transform, sent)
		e.Host = sent.Host
		seen = append(seen, e)
	}
	return op.LogReads(ctx, audit.Use, seen...)
}

// Env returns the environment for the expressions of a body with the given
// number of bytes: the tokens and a budget.
func (u *Used) Env(ctx context.Context, body int) expr.Env {
	steps := admission.RequestBudget(ctx, 0, body)
	for _, t := range u.byID {
		steps.AddToken(expr.Rounded(t.Data.Size()))
	}
	return expr.Env{Budget: steps, Whole: u.whole(), Lookup: func(ref expr.Ref) (jsonx.Value, bool) {
		t := u.byID[ref.ID]
		if t == nil {
			return jsonx.Value{}, false
		}
		v, known := t.seen[ref.Whole]
		if !known { // a request may name one token in thousands of expressions
			if ref.Whole {
				v = t.whole(ctx)
			} else {
				v = t.Shown(ctx, t.Transform)
			}
			t.seen[ref.Whole] = v
		}
		return v, !v.IsZero()
	}}
}

// whole returns the restriction of expressions over bound tokens.
func (u *Used) whole() *expr.Whole {
	if !u.Bound() {
		return nil
	}
	return &expr.Whole{
		Of: func(id string) bool { return u.byID[id] != nil && u.byID[id].To != nil },
		Inserted: func(id string, v jsonx.Value, names, free bool) {
			text := v.Text()
			u.byID[id].names = u.byID[id].names || names
			if k := v.Kind(); k == jsonx.Array || k == jsonx.Object {
				text = string(v.JSON())
			}
			u.results = append(u.results, Text{id, text, free})
		},
		Refused: func(id string) {
			u.refused = fault.New(fault.ErrForbidden, "an expression of this token may use only json with a plain path to one value, to_string and stringify, because its use is limited to requests to %s", u.byID[id].To)
		},
	}
}

// whole returns the token as a document. Enrichments are parts of a number, so only
// callers that see the number get them.
func (t *usedToken) whole(ctx context.Context) jsonx.Value {
	out := t.View(ctx, t.Transform)
	if t.Transform == access.Reveal && t.To == nil {
		out.Enrichments = t.Enrichments()
	}
	v, err := out.Value()
	if err != nil {
		return jsonx.Value{}
	}
	if token.ShowsTransform(ctx) {
		v = v.With("transform", jsonx.StringValue(t.Transform.String()))
	}
	return v
}
