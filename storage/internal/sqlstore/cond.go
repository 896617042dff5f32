package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/storage"
)

// maxTerms limits a condition, because databases reject expressions that are
// too deep.
const maxTerms = 500

// clause is a piece of SQL with the arguments of its placeholders.
type clause struct {
	text string
	args []any
}

var (
	always = clause{text: "1 = 1"}
	never  = clause{text: "1 = 0"}
)

// join joins clauses with an operator, in parentheses.
func join(clauses []clause, operator string) clause {
	texts := make([]string, len(clauses))
	var args []any
	for i, c := range clauses {
		texts[i] = c.text
		args = append(args, c.args...)
	}
	return clause{"(" + strings.Join(texts, operator) + ")", args}
}

// compiler translates conditions on tokens to SQL on the table with this alias.
// Unlike SQL with NULL, every clause is either true or false.
type compiler struct {
	dialect *Dialect
	tenant  storage.ID
	alias   string
	terms   int
}

// compile returns the clause of a condition on a tenant's rows of the table
// with this alias. The table is tokens. It may be token_counts if the condition
// uses only set and type, or any table with an ord if the condition uses only
// ord.
func compile(d *Dialect, tenant storage.ID, alias string, cond storage.Cond) (clause, error) {
	c := compiler{dialect: d, tenant: tenant, alias: alias}
	return c.cond(cond)
}

func (c *compiler) cond(cond storage.Cond) (clause, error) {
	if c.terms++; c.terms > maxTerms {
		return clause{}, fmt.Errorf("storage: a condition has more than %d terms", maxTerms)
	}
	switch cond := cond.(type) {
	case nil:
		return always, nil
	case storage.And:
		return c.all(cond, " AND ", always)
	case storage.Or:
		return c.all(cond, " OR ", never)
	case storage.Not:
		if hash, ok := cond.Cond.(storage.HashIs); ok {
			return c.hash(hash, false), nil
		}
		inner, err := c.cond(cond.Cond)
		return clause{"NOT (" + inner.text + ")", inner.args}, err
	case storage.ByIs:
		return c.byIs(cond)
	case storage.TimeIn:
		return c.timeIn(cond)
	default:
		return c.term(cond)
	}
}

// all compiles the parts of an And or an Or. empty is the result without parts.
func (c *compiler) all(parts []storage.Cond, operator string, empty clause) (clause, error) {
	if len(parts) == 0 {
		return empty, nil
	}
	clauses := make([]clause, len(parts))
	for i, part := range parts {
		var err error
		if clauses[i], err = c.cond(part); err != nil {
			return clause{}, err
		}
	}
	return join(clauses, operator), nil
}

func (c *compiler) term(cond storage.Cond) (clause, error) {
	switch cond := cond.(type) {
	case storage.SetIn:
		return c.in("set_id", hashes(cond)), nil
	case storage.TypeIn:
		return c.in("type", anys(cond)), nil
	case storage.IDIn:
		return c.in("id", anys(cond)), nil
	case storage.IDPrefix:
		return c.prefix(string(cond)), nil
	case storage.HashIs:
		return c.hash(cond, true), nil
	case storage.FingerprintIs:
		return clause{c.column("fingerprint") + " = ?", []any{cond[:]}}, nil
	case storage.KeyBelow:
		return clause{c.column("key_version") + " < ?", []any{int(cond)}}, nil
	default:
		return clause{}, fmt.Errorf("storage: unknown condition %T", cond)
	}
}

// hash returns the condition that a token has a hash, or that it does not.
//
// A scalar subquery, unlike EXISTS, never becomes a join, which could read all
// rows of the hash.
func (c *compiler) hash(hash storage.HashIs, has bool) clause {
	found := clause{`(SELECT 1 FROM vault_token_hashes h WHERE h.tenant_id = ? AND h.hash = ? AND h.ord = ` + c.column("ord") + `)`,
		[]any{c.dialect.ID(c.tenant), hash[:]}}
	if has {
		return found.some()
	}
	return clause{`COALESCE(` + found.text + `, 0) <> 1`, found.args}
}

// some returns the condition that a scalar subquery, which selects 1, finds a row. It
// is an inequality: PostgreSQL expects that nearly all rows meet an unknown inequality,
// and one in 200 an unknown equality. See plans.go.
func (c clause) some() clause { return clause{`COALESCE(` + c.text + `, 0) <> 0`, c.args} }

// hidden returns a condition that no index can evaluate, for rows that another
// condition finds. See plans.go.
func (c clause) hidden() clause {
	if c.text == always.text {
		return c
	}
	return clause{`CASE WHEN ` + c.text + ` THEN 1 ELSE 0 END <> 0`, c.args}
}

func (c *compiler) column(name string) string { return c.alias + "." + name }

func (c *compiler) in(column string, values []any) clause {
	if len(values) == 0 {
		return never
	}
	text, args := c.dialect.In(c.column(column), values)
	return clause{text, args}
}

// prefix returns a range of ids. The column compares byte by byte, which is
// also the order of code points in UTF-8. Ids are UTF-8, so no id has a prefix
// that is not.
func (c *compiler) prefix(prefix string) clause {
	switch {
	case prefix == "":
		return always
	case !utf8.ValidString(prefix):
		return never
	}
	text, args := c.column("id")+" >= ?", []any{prefix}
	if end, ok := afterPrefix(prefix); ok {
		text, args = "("+text+" AND "+c.column("id")+" < ?)", append(args, end)
	}
	return clause{text, args}
}

// afterPrefix returns the lowest text above every text with the prefix. It does
// not exist if the prefix consists only of the highest code point.
func afterPrefix(prefix string) (string, bool) {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		switch {
		case last == utf8.MaxRune:
			continue
		case last == 0xD7FF: // the surrogates above it occur in no text
			return prefix + "\uE000", true
		}
		return prefix + string(last+1), true
	}
	return "", false
}

func (c *compiler) byIs(by storage.ByIs) (clause, error) {
	column, ok := map[storage.Field]string{
		storage.CreatedBy: "created_by", storage.ModifiedBy: "modified_by",
	}[by.Field]
	if !ok {
		return clause{}, fmt.Errorf("storage: ByIs compares CreatedBy or ModifiedBy, not field %d", by.Field)
	}
	column = c.column(column)
	if by.ID.IsZero() {
		return clause{text: column + " IS NULL"}, nil
	}
	return clause{"(" + column + " IS NOT NULL AND " + column + " = ?)", []any{c.dialect.ID(by.ID)}}, nil
}

func (c *compiler) timeIn(in storage.TimeIn) (clause, error) {
	from, to := microsIn(in)
	switch in.Field {
	case storage.CreatedAt:
		return c.createdIn(from, to), nil
	case storage.ModifiedAt:
		column := c.column("modified_at")
		return clause{"(" + column + " IS NOT NULL AND " + column + " >= ? AND " + column + " < ?)", []any{from, to}}, nil
	default:
		return clause{}, fmt.Errorf("storage: TimeIn compares CreatedAt or ModifiedAt, not field %d", in.Field)
	}
}

// createdIn returns a range of ords, whose timestamp is the millisecond of
// created_at. In the first and last millisecond, if they are not whole, it
// compares the column.
func (c *compiler) createdIn(from, to int64) clause {
	ord, column := c.column("ord"), c.column("created_at")
	id := func(millis int64) any { return c.dialect.ID(idOfMillis(millis)) }
	ends := []clause{always}
	if from > 0 {
		ends = append(ends, clause{ord + " >= ?", []any{id(from / perMilli)}})
		if from%perMilli != 0 {
			ends = append(ends, clause{"(" + ord + " >= ? OR " + column + " >= ?)", []any{id(from/perMilli + 1), from}})
		}
	}
	switch {
	case to <= 0:
		return never
	case to/perMilli > maxMillis:
	case to%perMilli == 0:
		ends = append(ends, clause{ord + " < ?", []any{id(to / perMilli)}})
	default:
		ends = append(ends, clause{ord + " < ?", []any{id(to/perMilli + 1)}},
			clause{"(" + ord + " < ? OR " + column + " < ?)", []any{id(to / perMilli), to}})
	}
	return join(ends, " AND ")
}

// microsIn returns the range of a TimeIn in microseconds: at or after from, and
// before to.
func microsIn(in storage.TimeIn) (from, to int64) {
	from, to = -maxMicros, maxMicros
	switch {
	case in.From.IsZero():
	case in.ExcludeFrom:
		from = in.From.UnixMicro() + 1
	default:
		from = microsUp(in.From)
	}
	switch {
	case in.To.IsZero():
	case in.ExcludeTo:
		to = microsUp(in.To)
	default:
		to = in.To.UnixMicro() + 1
	}
	return from, to
}

// onOrd reports whether a condition uses only the ord of a token.
func onOrd(cond storage.Cond) bool {
	switch cond := cond.(type) {
	case storage.HashIs:
		return true
	case storage.TimeIn:
		from, to := microsIn(cond)
		return cond.Field == storage.CreatedAt && (from <= 0 || from%perMilli == 0) && (to/perMilli > maxMillis || to%perMilli == 0)
	case storage.Not:
		return onOrd(cond.Cond)
	case storage.And:
		return allOf(cond, onOrd)
	case storage.Or:
		return allOf(cond, onOrd)
	default:
		return cond == nil
	}
}

func allOf(conds []storage.Cond, is func(storage.Cond) bool) bool {
	return !slices.ContainsFunc(conds, func(c storage.Cond) bool { return !is(c) })
}

func hashes(values []storage.Hash) []any {
	args := make([]any, len(values))
	for i := range values {
		args[i] = values[i][:]
	}
	return args
}

// conjuncts returns conditions whose conjunction is equivalent to cond.
func conjuncts(cond storage.Cond) []storage.Cond {
	switch cond := cond.(type) {
	case nil:
		return nil
	case storage.And:
		var all []storage.Cond
		for _, part := range cond {
			all = append(all, conjuncts(part)...)
		}
		return all
	case storage.Or:
		if len(cond) == 1 {
			return conjuncts(cond[0])
		}
	case storage.Not:
		if in, ok := createdIn(cond.Cond); ok && in.From.IsZero() != in.To.IsZero() {
			return []storage.Cond{otherTimes(in)}
		}
	}
	return []storage.Cond{cond}
}

// otherTimes returns the condition for all other times than a range that is open at
// one end. Every token has a time of creation.
func otherTimes(in storage.TimeIn) storage.TimeIn {
	return storage.TimeIn{Field: in.Field, From: in.To, To: in.From, ExcludeFrom: !in.ExcludeTo, ExcludeTo: !in.ExcludeFrom}
}

// onSets reports whether a condition uses only set and type, by which tokens
// are counted.
func onSets(cond storage.Cond) bool {
	switch cond := cond.(type) {
	case storage.SetIn, storage.TypeIn:
		return true
	case storage.Not:
		return onSets(cond.Cond)
	case storage.And:
		return allOf(cond, onSets)
	case storage.Or:
		return allOf(cond, onSets)
	default:
		return cond == nil
	}
}
