package relay

import (
	"cmp"
	"context"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/egress"
	"github.com/seed-72ea4aab/vault/internal/expr"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/reveal"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// Detokenize replaces the expressions of a request by the data of tokens, which
// goes to the target. It changes the request in place, and logs the use of the
// tokens and of the other given entities.
//
// It replaces expressions in the body. If the caller may send the data of one of
// the tokens but not see it, the request is bound: the expressions in its headers
// and query are replaced too, and the Echo removes the data from the response.
// Otherwise the Echo is nil.
func Detokenize(ctx context.Context, op *core.Op, r *Request, to access.Target, also ...core.Entity) (*Echo, error) {
	body, bad := Scan(r.Header, r.Body)
	if bad != nil {
		return nil, fault.Of(bad)
	}
	elsewhere := r.carriers()
	known, bound, err := elsewhere.look(ctx, op, elsewhere.asked(op, r), r.BoundOnly)
	switch {
	case err != nil:
		return nil, err
	case !body.HasExpressions() && !bound:
		return nil, cmp.Or(elsewhere.refuse(r, known), op.LogReads(ctx, audit.Use, also...))
	case !op.Grant().Has(access.TokenUse):
		return nil, fault.PermissionOnToken(access.TokenUse)
	}
	all := carriers{{Body: body, set: func(text string) { r.Body = []byte(text) }}}
	used, err := all.find(ctx, op, elsewhere, bound, to)
	switch {
	case err != nil:
	case r.BoundOnly && used.Unbound():
		err = errUnbound
	case used.Bound():
		body.renewBoundary(r.Header)
		err = cmp.Or(all.fill(ctx, used, r), r.bind(to))
	default:
		err = cmp.Or(elsewhere.refuse(r, known), all.fill(ctx, used, r))
	}
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	if err := used.Log(ctx, op, also...); err != nil || !used.Bound() {
		return nil, err
	}
	return newEcho(ctx, used.Sent())
}

var errUnbound = fault.New(fault.ErrForbidden, "the forward proxy sends only tokens whose use is limited to destinations")

// find returns the tokens of the carriers. If one of them makes the request bound, or
// it is known to be bound, find adds the carriers elsewhere.
func (all *carriers) find(ctx context.Context, op *core.Op, elsewhere carriers, bound bool, to access.Target) (*reveal.Used, error) {
	if bound {
		*all = append(*all, elsewhere...)
	}
	used, err := reveal.Find(ctx, op, *all, reveal.Root, to)
	if err != nil || bound || !used.Bound() || len(elsewhere) == 0 {
		return used, err
	}
	return all.find(ctx, op, elsewhere, true, to)
}

// renewBoundary lets Fill replace the boundary of a multipart body by a random one.
// A boundary must not occur in the data, so with their own the sender could guess
// data that they may not see.
func (b *Body) renewBoundary(header http.Header) {
	typ, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || b.boundary == "" || !b.HasExpressions() {
		return
	}
	b.renewed = ids.Random58(boundaryLength)
	params["boundary"] = b.renewed
	header.Set("Content-Type", mime.FormatMediaType(typ, params))
}

// boundaryLength is the length of a random boundary.
const boundaryLength = 32

// bind prepares a request whose response is searched for the data that it sends.
// It is sent to the host that was checked.
func (r *Request) bind(to access.Target) error {
	if err := egress.CheckHeader(r.Header); err != nil {
		return fault.Field("headers", "%s", err.Error())
	}
	u := *r.URL
	u.Host = string(to)
	r.URL = &u
	for _, name := range []string{"Range", "If-Range", "Accept-Charset", "Upgrade"} {
		r.Header.Del(name)
	}
	r.Header.Set("Accept-Encoding", "identity")
	return nil
}

// HasExpressions reports whether the headers or the query of a request may have
// expressions.
func HasExpressions(req *http.Request) bool {
	for _, values := range req.Header {
		if slices.ContainsFunc(values, expr.HasExpression) {
			return true
		}
	}
	return opening.MatchString(req.URL.RawQuery)
}

// carrier is a text of a request that may have expressions.
type carrier struct {
	*Body
	header bool
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
		if slices.ContainsFunc(values, expr.HasExpression) || name == "Connection" {
			has[name] = values
		}
	}
	egress.RemoveHopByHop(has)
	for _, name := range []string{"Host", "Content-Length", "Content-Encoding", "Content-Type", "Expect"} {
		has.Del(name)
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		for i, value := range has[name] {
			b := &Body{raw: []byte(value)}
			if expr.HasExpression(value) && b.addText(spot{end: len(value), path: jsonx.JoinName("headers", name)}, value, nil) == nil {
				all = append(all, carrier{Body: b, header: true, set: func(text string) { r.Header[name][i] = text }})
			}
		}
	}
	return all
}

// asked returns the tokens of the carriers that matter to the request. For a caller
// whose use is never limited to destinations they are those that refuse rejects,
// and no more than fit into one call. Callers without token:use must not learn
// which ids exist.
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
			d := op.Grant().DecideTo(access.TokenUse, rows[i].ID, rows[i].Containers, "")
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

// fill replaces the expressions.
func (all carriers) fill(ctx context.Context, used *reveal.Used, r *Request) error {
	env, filled := used.Env(ctx, len(r.Body)+len(r.URL.RawQuery)), make([]string, len(all))
	for i, p := range all {
		out, bad := p.Fill(env)
		if bad != nil {
			return cmp.Or(used.Refused(), fault.Of(bad))
		}
		filled[i] = string(out)
		if p.header && strings.ContainsFunc(filled[i], unicode.IsControl) {
			return fault.Field(p.spots[0].path, "must not get a value with control characters")
		}
	}
	for i, p := range all {
		if p.HasExpressions() {
			p.set(filled[i])
		}
	}
	return nil
}

// newEcho returns the Echo for texts that were sent.
func newEcho(ctx context.Context, sent []reveal.Text) (*Echo, error) {
	var secrets []secret
	known, size := map[string]bool{}, 0
	for _, s := range sent {
		for _, text := range []string{s.Text, escapeXML(s.Text)} { // as it was inserted
			if !known[text] {
				known[text] = true
				secrets = append(secrets, secret{Text: text, Instead: "{{ " + s.Token + " }}"})
				size += len(text)
			}
		}
	}
	if memory := 32 * size; memory > core.LargeBody { // of the filter, about
		if err := cmp.Or(core.Reserve(ctx, memory), core.Turn(ctx)); err != nil {
			return nil, err
		}
	}
	return &Echo{newFilter(secrets)}, nil
}

// header returns the headers of a response without the data that was sent. A
// header whose name has such data is left out.
func (e *Echo) header(from http.Header) http.Header {
	out := http.Header{}
	for name, values := range from {
		if e.filter.String(name) != name {
			continue
		}
		for _, value := range values {
			out[name] = append(out[name], e.filter.String(value))
		}
	}
	return out
}
