package vault

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/storage"
)

// Token stands in for a value. How much of the value Data shows depends on who
// asks: the data itself, its mask, or nothing. CreatedBy and CreatedAt are nil
// only on a duplicate that its finder may not read: see [Client.CreateToken].
type Token struct {
	ID       string    `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Type     TokenType `json:"type"`
	Data     JSON      `json:"data,omitempty"`
	// Mask is the mask in force, as an expression or a tree of them.
	Mask JSON `json:"mask,omitempty"`
	// Enrichments is there only on whole tokens in detokenization expressions.
	Enrichments *Enrichments `json:"enrichments,omitempty"`
	// Fingerprint is equal for tokens of one type with equal content.
	Fingerprint           string            `json:"fingerprint,omitempty"`
	Containers            []string          `json:"containers,omitempty"`
	Metadata              map[string]string `json:"metadata,omitempty"`
	SearchIndexes         []string          `json:"search_indexes,omitempty"`
	FingerprintExpression string            `json:"fingerprint_expression,omitempty"`
	ExpiresAt             *time.Time        `json:"expires_at,omitempty"`
	CreatedBy             *uuid.UUID        `json:"created_by,omitempty"`
	CreatedAt             *time.Time        `json:"created_at,omitempty"`
	ModifiedBy            *uuid.UUID        `json:"modified_by,omitempty"`
	ModifiedAt            *time.Time        `json:"modified_at,omitempty"`
}

// TokenParams describes a token to be created. Only Type and Data are
// required.
type TokenParams struct {
	// ID names the token; it may be an expression. Default: a UUID.
	ID   string
	Type TokenType
	// Data is the value: JSON text (a [JSON], a json.RawMessage or a []byte), or
	// anything else that encodes to JSON.
	Data any
	// Mask is an expression, or any JSON with expressions in its strings.
	Mask any
	// Containers group the token; access rules are about them. Default: the
	// type's.
	Containers []string
	Metadata   map[string]string // not sensitive
	// SearchIndexes are expressions whose values SearchTokens finds the token
	// by. Nil means the type's default, empty means none.
	SearchIndexes         []string
	FingerprintExpression string
	// DeduplicateToken says whether an existing token with the same content is
	// returned instead. Nil means what the tenant's settings say.
	DeduplicateToken *bool
	ExpiresAt        *time.Time
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
func (p *TokenParams) UnmarshalJSON(data []byte) error {
	return readObject(data, p.read)
}

func (p *TokenParams) read(r *form.Reader) {
	*p = TokenParams{
		ID: r.OptionalText("id"), Type: TokenType(r.Text("type")), Containers: r.Texts("containers"),
		Metadata: r.TextMap("metadata"), SearchIndexes: r.Texts("search_indexes"),
		FingerprintExpression: r.OptionalText("fingerprint_expression"),
		DeduplicateToken:      r.OptionalBool("deduplicate_token"), ExpiresAt: r.Expiry("expires_at"),
	}
	if v := r.Value("data"); !v.IsZero() {
		p.Data = v
	}
	if v := r.Value("mask"); !v.IsZero() {
		p.Mask = v
	}
}

// GetToken returns a token as the client may see it (permission token:read).
func (c *Client) GetToken(ctx context.Context, id string) (*Token, error) {
	op, err := c.begin(ctx, access.TokenRead)
	if err != nil {
		return nil, err
	}
	row, logged, err := op.rowToRead(ctx, id)
	if err != nil {
		return nil, err
	}
	transform, ok := op.grant.Decide(access.TokenRead, row.ID, row.Containers)
	if !ok {
		return nil, errForbiddenToken(access.TokenRead)
	}
	t, err := op.openToken(ctx, row)
	if err != nil {
		return nil, err
	}
	if !logged {
		if err := op.logReads(ctx, opRead, t.entity()); err != nil {
			return nil, err
		}
	}
	return t.view(transform), nil
}

// rowToRead reads the row of a token that has not expired. When it cannot matter
// to the grant which token that is, and the storage can, the entry that it was
// read is made in the same step, and logged is true.
func (op *call) rowToRead(ctx context.Context, id string) (row *storage.Token, logged bool, err error) {
	store, ok := op.v.store.(storage.ReadLogger)
	if !ok || op.held != nil || op.v.cfg.StrictReadLogs || !possibleID(id) || !op.grant.OnAll(access.TokenRead) {
		row, err = op.tokenRow(ctx, id)
		return row, false, err
	}
	t, err := store.ReadToken(ctx, storage.Reading{Tenant: op.tenantID(), ID: id, Entry: op.entry(opRead, string(Generic), id)})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, false, errNoToken
	}
	return &t, true, err
}

var errNoToken = errorf(ErrNotFound, "There is no such token.")

func errForbiddenToken(permission string) error {
	return errorf(ErrForbidden, "The permission %s is needed on each container of the token.", permission)
}

// tokenRow reads the row of a token that has not expired.
func (op *call) tokenRow(ctx context.Context, id string) (*storage.Token, error) {
	var rows []storage.Token
	if possibleID(id) {
		var err error
		if rows, err = op.v.store.Tokens(ctx, op.tenantID(), []string{id}); err != nil {
			return nil, err
		}
	}
	if len(rows) == 0 || expiredRow(&rows[0], op.now) {
		return nil, errNoToken
	}
	return &rows[0], nil
}

// possibleID reports whether a token can have an id. Ids that none can have are
// not asked for: a database may refuse them as text.
func possibleID(id string) bool { return form.TextProblem(id) == "" && !form.Longer(id, maxID) }

// rows reads rows by id.
func (op *call) rows(ctx context.Context, ids []string) ([]storage.Token, error) {
	possible := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !possibleID(id) })
	if len(possible) == 0 {
		return nil, nil
	}
	return op.v.store.Tokens(ctx, op.tenantID(), possible)
}

func expiredRow(row *storage.Token, now time.Time) bool {
	return !row.ExpiresAt.IsZero() && !row.ExpiresAt.After(now)
}

// ListTokensParams filters tokens. Zero fields filter nothing; all given ones
// must hold.
type ListTokensParams struct {
	IDs   []string
	Types []TokenType
	// Metadata matches values without regard to case, keys exactly.
	Metadata map[string]string
	PageParams
}

// ListTokens returns a page of the tokens that the client may read, newest
// first (permission token:read).
func (c *Client) ListTokens(ctx context.Context, p ListTokensParams) (*Page[Token], error) {
	op, err := c.begin(ctx, access.TokenRead)
	if err != nil {
		return nil, err
	}
	where, err := op.listCond(p)
	if err != nil {
		return nil, err
	}
	return op.pageOfTokens(ctx, access.TokenRead, where, p.PageParams)
}

// listCond turns the filters into a condition.
func (op *call) listCond(p ListTokensParams) (storage.And, error) {
	var where storage.And
	bad := &form.Problems{}
	if len(p.IDs) > maxListValues || len(p.Types) > maxListValues || len(p.Metadata) > maxMetadata {
		return nil, invalid("", "must have at most %d ids, %d types and %d metadata filters", maxListValues, maxListValues, maxMetadata)
	}
	if len(p.IDs) > 0 {
		where = append(where, storage.IDIn(p.IDs))
	}
	if len(p.Types) > 0 {
		types := make(storage.TypeIn, len(p.Types))
		for i, t := range p.Types {
			types[i] = string(t)
			form.CheckText(bad, "type", types[i])
		}
		where = append(where, types)
	}
	for key, value := range p.Metadata {
		where = append(where, storage.HashIs(op.metadataHash(key, value)))
	}
	for _, id := range p.IDs {
		form.CheckText(bad, "id", id)
	}
	return where, asInvalid(bad)
}

// maxListValues bounds each repeated filter of a list.
const maxListValues = 1000

// pageOfTokens lists the tokens that meet a condition and on which the client
// has a permission.
func (op *call) pageOfTokens(ctx context.Context, permission string, where storage.And, p PageParams) (*Page[Token], error) {
	p, err := p.normal()
	if err != nil {
		return nil, err
	}
	if where, err = op.restrict(ctx, permission, where); err != nil {
		return nil, err
	}
	rows, total, err := op.v.store.ListTokens(ctx, storage.TokenFilter{
		Tenant: op.tenantID(), Where: condOf(where), Now: op.now,
		Offset: p.offset(), Limit: p.Size, MaxBytes: op.maxPageBytes(), Count: true,
	})
	if err != nil {
		return nil, op.pageError(err)
	}
	page := newPage[Token](p, total)
	page.Data, err = op.seeAll(ctx, permission, rows)
	return page, err
}

// AllTokens iterates over all tokens that meet the filters and that the client
// may read, newest first (permission token:read). Tokens created meanwhile are
// not seen. The page parameters do not count.
func (c *Client) AllTokens(ctx context.Context, p ListTokensParams) iter.Seq2[*Token, error] {
	return func(yield func(*Token, error) bool) {
		walk := tokenWalk{batches: newBatches(maxPageSize)}
		for {
			batch, more, err := c.nextTokens(ctx, p, &walk)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range batch {
				if !yield(&batch[i], nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// tokenWalk is how far an iteration has come.
type tokenWalk struct {
	before storage.ID
	batches
}

// nextTokens returns the next batch of an iteration. It reports whether there
// may be another.
func (c *Client) nextTokens(ctx context.Context, p ListTokensParams, walk *tokenWalk) ([]Token, bool, error) {
	op, err := c.begin(ctx, access.TokenRead)
	if err != nil {
		return nil, false, err
	}
	where, err := op.listCond(p)
	if err != nil {
		return nil, false, err
	}
	if where, err = op.restrict(ctx, access.TokenRead, where); err != nil {
		return nil, false, err
	}
	rows, more, err := nextBatch(&walk.batches, func(limit int) ([]storage.Token, error) {
		rows, _, err := op.v.store.ListTokens(ctx, storage.TokenFilter{
			Tenant: op.tenantID(), Where: condOf(where), Now: op.now,
			Before: walk.before, Limit: limit, MaxBytes: op.maxPageBytes(),
		})
		return rows, err
	})
	if err != nil || len(rows) == 0 {
		return nil, false, err
	}
	walk.before = rows[len(rows)-1].Ord
	batch, err := op.seeAll(ctx, access.TokenRead, rows)
	return batch, more, err
}

// seeAll opens rows of a list as the client may see them, and logs the reads.
func (op *call) seeAll(ctx context.Context, permission string, rows []storage.Token) ([]Token, error) {
	out := make([]Token, 0, len(rows))
	seen := make([]entity, 0, len(rows))
	for i := range rows {
		transform, ok := op.grant.Decide(permission, rows[i].ID, rows[i].Containers)
		if !ok {
			continue // the condition and the rules disagree: show nothing
		}
		t, err := op.openToken(ctx, &rows[i])
		if err != nil {
			return nil, err
		}
		out = append(out, Token{})
		t.show(&out[len(out)-1], transform)
		seen = append(seen, t.entity())
	}
	if err := op.logReads(ctx, opRead, seen...); err != nil {
		return nil, err
	}
	return out, nil
}

// condOf returns nil for a condition that always holds.
func condOf(where storage.And) storage.Cond {
	if len(where) == 0 {
		return nil
	}
	return where
}

// restrict adds to a condition that the client has a permission on the token.
func (op *call) restrict(ctx context.Context, permission string, where storage.And) (storage.And, error) {
	if op.grant.OnAll(permission) {
		return where, nil
	}
	sets, err := op.v.store.ContainerSets(ctx, op.tenantID())
	if err != nil {
		return nil, err
	}
	containers := make([][]string, len(sets))
	for i := range sets {
		containers[i] = sets[i].Containers
	}
	allowed := storage.Or{}
	for _, clause := range op.grant.Filter(permission, containers).Clauses {
		in := make(storage.SetIn, len(clause.Sets))
		for i, set := range clause.Sets {
			in[i] = sets[set].Set
		}
		allowed = append(allowed, clauseCond(in, clause.IDs))
	}
	if len(allowed) == 1 {
		return append(storage.And{allowed[0]}, where...), nil
	}
	return append(storage.And{allowed}, where...), nil
}

func clauseCond(in storage.SetIn, ids []access.IDs) storage.Cond {
	if len(ids) == 0 {
		return in
	}
	cond := storage.And{in}
	for _, group := range ids {
		var any storage.Or
		if len(group.Equal) > 0 {
			any = append(any, storage.IDIn(group.Equal))
		}
		for _, prefix := range group.Prefixes {
			any = append(any, storage.IDPrefix(prefix))
		}
		cond = append(cond, any)
	}
	return cond
}

// DeleteToken deletes a token (permission token:delete).
func (c *Client) DeleteToken(ctx context.Context, id string) error {
	op, err := c.begin(ctx, access.TokenDelete)
	if err != nil {
		return err
	}
	_, err = retryStale(func() (struct{}, error) { return struct{}{}, op.deleteToken(ctx, id) })
	return err
}

func (op *call) deleteToken(ctx context.Context, id string) error {
	row, err := op.tokenRow(ctx, id)
	if err != nil {
		return err
	}
	if _, ok := op.grant.Decide(access.TokenDelete, row.ID, row.Containers); !ok {
		return errForbiddenToken(access.TokenDelete)
	}
	ch := op.change()
	ch.DeleteTokens = []storage.TokenDelete{deletionOf(row)}
	ch.Logs = []storage.Log{op.entry(opDelete, row.Type, row.ID)}
	return op.write(ctx, ch)
}

func deletionOf(row *storage.Token) storage.TokenDelete {
	return storage.TokenDelete{Ord: row.Ord, Rev: row.Rev, Set: row.Set, Type: row.Type}
}
