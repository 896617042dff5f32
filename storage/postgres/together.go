package postgres

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-72ea4aab/vault/storage"
)

// carefulFor is for how many batches conflicts are expected after there was
// one.
const carefulFor = 64

// createTogether writes a batch of creates in one statement, and returns those
// that were passed over: a conflict keeps them, and them alone, from being
// written.
//
// The statement that fails as a whole at a conflict costs the server much less
// than the one that passes over the changes which have one. So the first is
// tried, unless there was a conflict not long ago: even somebody who causes them
// all the time does not make others wait for statements that fail.
func (s *Store) createTogether(slot *slot, batch []*pending) (passed []*pending, err error) {
	g := s.gather(batch)
	careful := s.careful.Load() > 0
	if careful {
		s.careful.Add(-1)
	} else {
		err = slot.exec(g.trusting(slot.shard))
	}
	if refused(err) {
		s.careful.Store(carefulFor)
		careful = true
	}
	if careful {
		passed, err = g.createCarefully(slot, batch)
	}
	if err != nil {
		return nil, err
	}
	for _, p := range batch {
		if !slices.Contains(passed, p) {
			s.sets.learn(p.change)
		}
	}
	return passed, nil
}

// The columns of what shares a statement. The last one of each is for the
// careful statement: a token names the claim that it needs, and a log entry and
// a claim name their token.
var (
	groupTokenColumns = slices.Concat(tenantColumn, tokenColumns, columns{{"claim", bytea}})
	groupLogColumns   = slices.Concat(tenantColumn, logColumns, columns{{"token", bytea}})
	groupClaimColumns = slices.Concat(tenantColumn, claimColumns, columns{{"token", bytea}})
	groupHashColumns  = slices.Concat(tenantColumn, hashColumns)
	groupSetColumns   = slices.Concat(tenantColumn, setColumns)
	groupCountColumns = slices.Concat(tenantColumn, countColumns)
)

// group is the rows of a batch of creates.
type group struct {
	tokens, hashes, logs, claims, sets, counts [][]any
	// now is the earliest moment by which a change judges claims. A claim that
	// only the later ones see dead is refused here and looked at again.
	now int64
}

func (s *Store) gather(batch []*pending) *group {
	g := &group{}
	for _, p := range ordered(batch) {
		c := p.change
		var token any
		if len(c.InsertTokens) > 0 {
			token = c.InsertTokens[0].Ord[:]
			g.addToken(c, s.sets.unknown(c))
		}
		for _, row := range tenantRows(c.Tenant, c.Logs, logRow) {
			g.logs = append(g.logs, append(row, token))
		}
	}
	slices.SortFunc(g.counts, compareRows)
	return g
}

func (g *group) addToken(c *storage.Change, sets []storage.ContainerSet) {
	t := &c.InsertTokens[0]
	var claim any
	if c.Claim != nil {
		claim = c.Claim.Key[:]
		if now := micros(c.Now); len(g.claims) == 0 || now < g.now {
			g.now = now
		}
		row := append([]any{c.Tenant[:]}, claimRow(&c.Claim.Claim)...)
		g.claims = append(g.claims, append(row, t.Ord[:]))
	}
	row := append(append(make([]any, 0, len(groupTokenColumns)), c.Tenant[:]), tokenRow(t)...)
	g.tokens = append(g.tokens, append(row, claim))
	for _, h := range hashRows(t) {
		g.hashes = append(g.hashes, append([]any{c.Tenant[:]}, h...))
	}
	for i := range sets {
		set := append([]any{c.Tenant[:]}, setRow(&sets[i])...)
		if !slices.ContainsFunc(g.sets, func(known []any) bool { return compareRows(known, set) == 0 }) {
			g.sets = append(g.sets, set)
		}
	}
	count := []any{c.Tenant[:], t.Set[:], t.Type, int64(1)}
	at := slices.IndexFunc(g.counts, func(known []any) bool { return compareRows(known, count) == 0 })
	if at < 0 {
		g.counts = append(g.counts, count)
	} else {
		g.counts[at][3] = g.counts[at][3].(int64) + 1
	}
}

// compareRows orders rows by what comes before their numbers.
func compareRows(a, b []any) int {
	for i := range a {
		var order int
		switch v := a[i].(type) {
		case []byte:
			order = bytes.Compare(v, b[i].([]byte))
		case string:
			order = strings.Compare(v, b[i].(string))
		default:
			return 0
		}
		if order != 0 {
			return order
		}
	}
	return 0
}

// trustingForm is what the text of a trusting statement depends on: which
// columns are absent, and which rows there are none of.
type trustingForm struct {
	tokens, logs, claims   uint32
	noTokens, hashes, sets bool
}

// trustingTexts are the statements by their forms.
var trustingTexts sync.Map // of trustingForm to string

// trusting returns the statement that writes all of a batch, or nothing at a
// conflict, and its parameters.
func (g *group) trusting(shard int64) (text string, args []any, prepare bool) {
	last := func(cs columns) uint32 { return 1 << (len(cs) - 1) }
	f := trustingForm{
		tokens:   groupTokenColumns.absent(g.tokens) | last(groupTokenColumns),
		logs:     groupLogColumns.absent(g.logs) | last(groupLogColumns),
		claims:   groupClaimColumns.absent(g.claims) | last(groupClaimColumns),
		noTokens: len(g.tokens) == 0, hashes: len(g.hashes) > 0, sets: len(g.sets) > 0,
	}
	if known, ok := trustingTexts.Load(f); ok {
		text = known.(string)
	} else {
		text = f.text()
		trustingTexts.Store(f, text)
	}
	args = groupLogColumns.arraysWithout(f.logs, g.logs)
	if f.noTokens {
		return text, args, true
	}
	args = append(args, groupTokenColumns.arraysWithout(f.tokens, g.tokens)...)
	args = append(append(args, groupCountColumns.arrays(g.counts)...), shard)
	if f.hashes {
		args = append(args, groupHashColumns.arrays(g.hashes)...)
	}
	if f.sets {
		args = append(args, groupSetColumns.arrays(g.sets)...)
	}
	if len(g.claims) > 0 {
		args = append(args, groupClaimColumns.arraysWithout(f.claims, g.claims)...)
		args = append(args, g.now, int64(len(g.tokens)), int64(len(g.claims)))
	}
	return text, args, true
}

func (f trustingForm) text() string {
	n := 0
	from := func(cs columns) string {
		item := cs.from(n, true, "u")
		n += len(cs)
		return item
	}
	number := func() string {
		n++
		return "$" + strconv.Itoa(n) + "::bigint"
	}
	insert := func(table string, cs columns) string {
		return "INSERT INTO " + table + " (" + cs.names("") + ") SELECT u.* FROM " + from(cs)
	}
	logged := insert("logs", groupLogColumns.without(f.logs))
	if f.noTokens {
		return logged
	}
	parts := []string{"created AS (" + insert("tokens", groupTokenColumns.without(f.tokens)) + " RETURNING 1)"}
	counted := from(groupCountColumns)
	parts = append(parts, "counted AS (INSERT INTO token_counts (tenant_id, set_id, type, shard, n)"+
		" SELECT u.tenant_id, u.set_id, u.type, "+number()+", u.n FROM "+counted+addToCounts+")")
	if f.hashes {
		parts = append(parts, "hashed AS ("+insert("token_hashes", groupHashColumns)+")")
	}
	if f.sets {
		parts = append(parts, "sets AS ("+insert("container_sets", groupSetColumns)+
			" ORDER BY u.tenant_id, u.set_id ON CONFLICT DO NOTHING)")
	}
	claims := groupClaimColumns.without(f.claims)
	if len(claims) == 0 {
		return "WITH " + strings.Join(parts, ",\n") + "\n" + logged
	}
	claimed := insert("claims", claims) + " ORDER BY u.tenant_id, u.key"
	parts = append(parts, "logged AS ("+logged+")", "claimed AS ("+claimed+replaceClaim+dead(number())+" RETURNING 1)")
	return "WITH " + strings.Join(parts, ",\n") + "\nSELECT 1 / (CASE WHEN (SELECT count(*) FROM created) = " + number() +
		" AND (SELECT count(*) FROM claimed) = " + number() + " THEN 1 ELSE 0 END)"
}

// ordered sorts changes by the unique keys of their tokens, so that two
// batches that want the same keys do not wait for each other.
func ordered(batch []*pending) []*pending {
	sorted := slices.Clone(batch)
	slices.SortStableFunc(sorted, func(a, b *pending) int {
		if byTenant := bytes.Compare(a.change.Tenant[:], b.change.Tenant[:]); byTenant != 0 {
			return byTenant
		}
		if len(a.change.InsertTokens) == 0 || len(b.change.InsertTokens) == 0 {
			return len(a.change.InsertTokens) - len(b.change.InsertTokens)
		}
		t, u := &a.change.InsertTokens[0], &b.change.InsertTokens[0]
		return cmp.Or(bytes.Compare(t.Dedup[:], u.Dedup[:]), cmp.Compare(t.ID, u.ID))
	})
	return sorted
}
