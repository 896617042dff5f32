package relay

import (
	"cmp"
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// HasExpressions reports whether the headers or the query of a request may have
// expressions.
func HasExpressions(req *http.Request) bool {
	for name, values := range req.Header {
		if slices.ContainsFunc(values, func(value string) bool { return mayFill(name, value) }) {
			return true
		}
	}
	return opening.MatchString(req.URL.RawQuery)
}

// mayFill reports whether the value of a header may have expressions.
func mayFill(name, value string) bool {
	if strings.EqualFold(name, "Authorization") && isBasic(value) {
		text, _, _ := basicText(value)
		return expr.HasExpression(text)
	}
	return expr.HasExpression(value)
}

// carrier is a text of a request that may have expressions.
type carrier struct {
	*Body
	header bool
	basic  bool         // the spot is base64
	set    func(string) // replaces it
}

// carriers are the texts of a request.
type carriers []carrier

// carriers returns the query and the values of headers that have well-formed
// expressions. It leaves out headers about the connection or the body.
func (r *Request) carriers() carriers {
	var all carriers
	query, start := &Body{raw: []byte(r.URL.RawQuery)}, 0
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		_ = query.scanForm(start, start+len(pair), "query") // other text passes
		start += len(pair) + len("&")
	}
	if query.HasExpressions() {
		all = append(all, carrier{Body: query, set: func(text string) { r.URL.RawQuery = text }})
	}
	has := http.Header{}
	for name, values := range r.Header {
		if slices.ContainsFunc(values, func(value string) bool { return mayFill(name, value) }) || name == "Connection" {
			has[name] = values
		}
	}
	egress.RemoveHopByHop(has)
	for _, name := range []string{"Host", "Content-Length", "Content-Encoding", "Content-Type", "Expect"} {
		has.Del(name)
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		for i, value := range has[name] {
			b, s, text := &Body{raw: []byte(value)}, spot{end: len(value), path: jsonx.JoinName("headers", name), oneLine: true}, value
			basic := name == "Authorization" && isBasic(value)
			if basic {
				plain, at, _ := basicText(value)
				s.start, s.encode, text = at, func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }, plain
			}
			if expr.HasExpression(text) && b.addText(s, text, nil) == nil {
				all = append(all, carrier{Body: b, header: true, basic: basic, set: func(text string) { r.Header[name][i] = text }})
			}
		}
	}
	return all
}

// asked returns the tokens of the carriers that matter to the request. For a caller
// whose use is never limited to destinations, they are the tokens that refuse
// rejects, and no more than fit into one call. Callers without token:use must not
// learn which ids exist.
func (all carriers) asked(op *core.Op, r *Request) (ids []string) {
	switch {
	case !op.Grant().Has(access.TokenUse):
		return nil
	case op.Grant().Destinations() != nil:
		ids = expr.DistinctIDs(all.Refs())
		return ids[:min(len(ids), reveal.MaxTokens)]
	}
	var refs []expr.Ref
	for _, p := range all {
		for i := range p.spots {
			if r.BodyOnly && p.isExpression(i) {
				refs = append(refs, p.templates.RefsOf(i)...)
			}
		}
	}
	ids = expr.DistinctIDs(refs)
	return ids[:min(len(ids), reveal.AtOnce)]
}

// look returns which of the tokens exist, and whether the caller may send but not
// see the data of one of them. If boundOnly is set, a token that the caller may see
// is an error.
func (all carriers) look(ctx context.Context, op *core.Op, ids []string, boundOnly bool) (known []string, bound bool, err error) {
	for piece := range slices.Chunk(ids, reveal.AtOnce) {
		rows, err := tokens.Rows(ctx, op, piece)
		if err != nil {
			return nil, false, err
		}
		for i := range rows {
			if tokens.Expired(&rows[i], op.Now) {
				continue
			}
			known = append(known, rows[i].ID)
			d := op.Grant().DecideTo(access.TokenUse, rows[i].ID, rows[i].Containers, access.Target{})
			if boundOnly && d.Transform != access.None {
				return nil, false, errUnbound
			}
			bound = bound || d.To != nil
		}
	}
	return known, bound, nil
}

// refuse rejects a request with a carrier that consists of one expression which
// names a known token, because its sender expects the data there. Any other text
// that looks like an expression may belong to the destination, and passes.
func (all carriers) refuse(r *Request, known []string) error {
	bad := &form.Problems{}
	for _, p := range all {
		for i, named := range p.templates.Naming(known) {
			if r.BodyOnly && len(named) > 0 && p.isExpression(i) {
				bad.Add(p.spots[i].path, "must not be an expression that names a token: only bodies are filled in")
			}
		}
	}
	return fault.Of(bad)
}

// isExpression reports whether the value with a spot is exactly one expression.
func (p *carrier) isExpression(spot int) bool {
	before, after := p.raw[:p.spots[spot].start], p.raw[p.spots[spot].end:]
	whole := len(before) == 0 || !p.header && before[len(before)-1] == '='
	return whole && (len(after) == 0 || !p.header && after[0] == '&') && p.templates.IsExpression(spot)
}

// Refs returns the tokens in the expressions of the carriers.
func (all carriers) Refs() (refs []expr.Ref) {
	for _, p := range all {
		refs = append(refs, p.templates.Refs()...)
	}
	return refs
}

// Naming returns the expressions that name one of these ids: the named ids, by
// path.
func (all carriers) Naming(ids []string) map[string][]string {
	named := map[string][]string{}
	for _, p := range all {
		for i, some := range p.templates.Naming(ids) {
			if path := p.spots[i].path; len(some) > 0 {
				named[path] = append(named[path], some...)
			}
		}
	}
	return named
}

// encoded returns the base64 texts of headers, once they are filled in.
func (all carriers) encoded(r *Request) (out []reveal.Text) {
	for _, p := range all {
		if refs := p.templates.Refs(); p.basic && len(refs) > 0 {
			for _, value := range r.Header["Authorization"] {
				if _, at, ok := basicText(value); ok && len(value)-at >= expr.ShortLeaf {
					out = append(out, reveal.Text{Token: refs[0].ID, Text: value[at:]})
				}
			}
		}
	}
	return out
}

// fill replaces the expressions.
func (all carriers) fill(ctx context.Context, used *reveal.Used, r *Request) error {
	env, filled := used.Env(ctx, len(r.Body)+len(r.URL.RawQuery)), make([]string, len(all))
	for i, p := range all {
		out, bad := p.Fill(env)
		if bad != nil {
			return cmp.Or(used.Refused(), fault.Of(bad))
		}
		filled[i] = string(out)
	}
	for i, p := range all {
		if p.HasExpressions() {
			p.set(filled[i])
		}
	}
	return nil
}
