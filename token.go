package vault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/ids"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/kept"
	"github.com/seed-72ea4aab/vault/internal/limits"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// Token stands in for a value. How much of the value Data shows depends on who
// asks: the data itself, its mask, or nothing.
//
// Here as everywhere, a time or an id that is absent is zero: a token without
// ExpiresAt never expires, one without ModifiedAt was never changed. CreatedBy
// and CreatedAt are zero only on a duplicate that its finder may not read: see
// [Client.CreateToken].
//
// With fmt, whatever the verb, and with slog a token shows its id, tenant and
// type, but no data; so it does in a slice, in a map, and in an exported field
// of a struct. In two places it is shown in full: as JSON, which is also how the
// JSON handler of slog writes a slice, a map or a struct that holds tokens, and
// in an unexported field of a struct that is printed, because fmt calls no
// methods there. The same holds for [TokenParams], [CardData], [BankData],
// [Tenant], [Application], [Session], [Grant], [Reactor], [ReactorParams],
// [ReactParams], [ReactResult], [Proxy], [ProxyParams], [ProxyCall],
// [SearchTokensParams], [CursorSearch], [ExportOptions] and [Answer]: they show names and ids, but
// no data, keys, secrets or configuration.
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
	ExpiresAt             time.Time         `json:"expires_at,omitzero"`
	CreatedBy             uuid.UUID         `json:"created_by,omitzero"`
	CreatedAt             time.Time         `json:"created_at,omitzero"`
	ModifiedBy            uuid.UUID         `json:"modified_by,omitzero"`
	ModifiedAt            time.Time         `json:"modified_at,omitzero"`
}

// TokenType says what a token holds, and with it how data is validated, masked
// and fingerprinted by default.
type TokenType string

// The types of tokens.
const (
	TypeGeneric              TokenType = "token"                  // any JSON but null
	TypeCard                 TokenType = "card"                   // see CardData
	TypeBank                 TokenType = "bank"                   // see BankData
	TypeCardNumber           TokenType = "card_number"            // a string of 12 to 19 digits
	TypeUSBankAccountNumber  TokenType = "us_bank_account_number" // a string of 3 to 17 digits
	TypeUSBankRoutingNumber  TokenType = "us_bank_routing_number" // a string of 9 digits
	TypeSocialSecurityNumber TokenType = "social_security_number" // a string of 9 digits, with dashes or without
	TypeEmployerIDNumber     TokenType = "employer_id_number"     // likewise
)

// CardData is the data of a TypeCard token. It is not shown when it is printed or
// logged, except as JSON and in unexported fields: see [Token].
type CardData struct {
	Number          string `json:"number"` // without separators
	ExpirationMonth int    `json:"expiration_month,omitempty"`
	ExpirationYear  int    `json:"expiration_year,omitempty"`
	CVC             string `json:"cvc,omitempty"` // deleted an hour after it was given
}

// value is what encoding/json makes of the card, without its reflection.
func (d CardData) value() jsonx.Value {
	return token.CardValue(d.Number, d.ExpirationMonth, d.ExpirationYear, d.CVC)
}

// BankData is the data of a TypeBank token. It is not shown when it is printed or
// logged, except as JSON and in unexported fields: see [Token].
type BankData struct {
	RoutingNumber string `json:"routing_number"`
	AccountNumber string `json:"account_number"`
}

// Enrichments is what the vault knows about a token's data beyond the data.
type Enrichments struct {
	Card *CardEnrichment `json:"card,omitempty"`
}

// CardEnrichment describes a card by its number.
type CardEnrichment struct {
	Brand string `json:"brand"` // visa, mastercard, ...; unknown outside known ranges
	BIN   string `json:"bin"`   // 8 digits from 16 digits on, else 6
	Last4 string `json:"last4"`
}

// enrichments returns the enrichments of card types, and nil for others.
func enrichments(b *token.Body) *Enrichments {
	number, ok := b.CardNumber()
	if !ok {
		return nil
	}
	return &Enrichments{Card: &CardEnrichment{Brand: token.Brand(number), BIN: token.BIN(number), Last4: number[len(number)-4:]}}
}

// TokenParams describes a token to be created. Only Type and Data are
// required. Data is not shown when it is printed or logged, except as JSON and
// in unexported fields: see [Token].
type TokenParams struct {
	// ID names the token; it may be an expression. Default: a UUID.
	ID   string
	Type TokenType
	// Data is the value: JSON text (a [JSON] or a json.RawMessage), or anything
	// else that encodes to JSON, but for a []byte: see [EncodeJSON].
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
	// ExpiresAt ends the token. Zero means never.
	ExpiresAt time.Time
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

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p TokenParams) MarshalJSON() ([]byte, error) {
	data, err := parseJSON("data", p.Data)
	if err != nil {
		return nil, public(err)
	}
	mask, err := parseJSON("mask", p.Mask)
	if err != nil {
		return nil, public(err)
	}
	w := &form.Writer{}
	w.Text("id", p.ID)
	w.Text("type", string(p.Type))
	w.Value("data", data)
	w.Value("mask", mask)
	w.Texts("containers", p.Containers)
	w.TextMap("metadata", p.Metadata)
	w.Texts("search_indexes", p.SearchIndexes)
	w.Text("fingerprint_expression", p.FingerprintExpression)
	if p.DeduplicateToken != nil {
		w.Value("deduplicate_token", jsonx.BoolValue(*p.DeduplicateToken))
	}
	if !p.ExpiresAt.IsZero() {
		w.Text("expires_at", p.ExpiresAt.Format(time.RFC3339Nano))
	}
	return w.JSON(), nil
}

// GetToken returns a token as the client may see it (permission token:read).
func (c *Client) GetToken(ctx context.Context, id string) (*Token, error) {
	return run(ctx, c, &verbGetToken, func(ctx context.Context, op *operation) (*Token, error) { return op.readToken(ctx, id) })
}

func (op *operation) readToken(ctx context.Context, id string) (*Token, error) {
	row, logged, err := op.rowToRead(ctx, id)
	if err != nil {
		return nil, err
	}
	transform, ok := op.Grant().Decide(access.TokenRead, row.ID, row.Containers)
	if !ok {
		return nil, fault.PermissionOnToken(access.TokenRead)
	}
	t, err := op.openToken(ctx, row)
	if err != nil {
		return nil, err
	}
	if !logged {
		if err := op.LogReads(ctx, audit.Read, t.entity()); err != nil {
			return nil, err
		}
	}
	op.noteUse(ctx, access.TokenRead, &t, transform)
	return t.view(ctx, transform), ctx.Err()
}

// rowToRead reads the row of a token that has not expired. When it cannot matter
// to the grant which token that is, and the storage can, the entry that it was
// read is made in the same step, and logged is true.
func (op *operation) rowToRead(ctx context.Context, id string) (row *storage.Token, logged bool, err error) {
	store, ok := op.Vault.Store.(storage.ReadLogger)
	if !ok || op.Pending() != nil || op.InsideTx() || op.Vault.StrictReadLogs || !token.PossibleID(id) || !op.Grant().OnAll(access.TokenRead) {
		row, err = op.tokenRow(ctx, id)
		return row, false, err
	}
	t, err := store.ReadToken(ctx, storage.Reading{Tenant: op.TenantID(), ID: id, Entry: op.Entry(audit.Read, string(TypeGeneric), id)})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, false, fault.ErrNoToken
	}
	return &t, true, err
}

// tokenRow reads the row of a token that has not expired.
func (op *operation) tokenRow(ctx context.Context, id string) (*storage.Token, error) {
	var rows []storage.Token
	if token.PossibleID(id) {
		var err error
		if rows, err = op.DB().Tokens(ctx, op.TenantID(), []string{id}); err != nil {
			return nil, err
		}
	}
	if len(rows) == 0 || expiredRow(&rows[0], op.Now) {
		return nil, fault.ErrNoToken
	}
	return &rows[0], nil
}

// rows reads rows by id.
func (op *operation) rows(ctx context.Context, ids []string) ([]storage.Token, error) {
	possible := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !token.PossibleID(id) })
	if len(possible) == 0 {
		return nil, nil
	}
	return op.DB().Tokens(ctx, op.TenantID(), possible)
}

func expiredRow(row *storage.Token, now time.Time) bool {
	return !row.ExpiresAt.IsZero() && !row.ExpiresAt.After(now)
}

// DeleteToken deletes a token (permission token:delete).
func (c *Client) DeleteToken(ctx context.Context, id string) error {
	return runErr(ctx, c, &verbDeleteToken, func(ctx context.Context, op *operation) error {
		_, err := core.RetryStale(func() (struct{}, error) { return struct{}{}, op.deleteToken(ctx, id) })
		return err
	})
}

func (op *operation) deleteToken(ctx context.Context, id string) error {
	row, err := op.tokenRow(ctx, id)
	if err != nil {
		return err
	}
	if _, ok := op.Grant().Decide(access.TokenDelete, row.ID, row.Containers); !ok {
		return fault.PermissionOnToken(access.TokenDelete)
	}
	ch := op.Change()
	ch.DeleteTokens = []storage.TokenDelete{deletionOf(row)}
	ch.Logs = []storage.Log{op.Entry(audit.Delete, row.Type, row.ID)}
	return op.Write(ctx, ch)
}

// expire deletes rows that have expired and are in the way of the operation, with
// a log entry each.
func (op *operation) expire(ctx context.Context, expired []storage.Token) error {
	for i := range expired {
		system := op.Vault.System(op.TenantID())
		ch := system.Change()
		ch.DeleteTokens = []storage.TokenDelete{deletionOf(&expired[i])}
		ch.Logs = []storage.Log{system.Entry(audit.Expire, expired[i].Type, expired[i].ID)}
		if err := op.Apply(ctx, ch); err != nil && !errors.Is(err, storage.ErrStale) {
			return err
		}
	}
	return nil
}

func deletionOf(row *storage.Token) storage.TokenDelete {
	return storage.TokenDelete{Ord: row.Ord, Rev: row.Rev, Set: row.Set, Type: row.Type}
}

// clearToken is a token in clear, with its row. It lives for the length of a
// call.
type clearToken struct {
	row *storage.Token
	token.Body
}

func (t *clearToken) entity() core.Entity { return core.Entity{Type: t.row.Type, ID: t.row.ID} }

// sealToken fills in the sealed columns. All other columns must be set already.
func (op *operation) sealToken(t *clearToken) error {
	row := t.row
	row.KeyVersion = op.State.Ring.Version()
	var parts sealed.Parts
	place := sealed.TokenPlace(row, &parts)
	err := t.WithEncoded(func(plain []byte) (err error) {
		if len(plain) > op.Vault.MaxBytes {
			return fault.New(ErrTooLarge, "A token must have at most %d bytes.", op.Vault.MaxBytes)
		}
		row.Body, err = op.Seal(&place, plain)
		return err
	})
	if err != nil {
		return err
	}
	row.CVC = nil
	if t.CVC == "" {
		row.CVCExpiresAt = time.Time{}
		return nil
	}
	place = sealed.CVCPlace(row, &parts)
	row.CVC, err = op.Seal(&place, []byte(t.CVC))
	return err
}

// openToken reads a row, which becomes part of the token.
func (op *operation) openToken(ctx context.Context, row *storage.Token) (clearToken, error) {
	t := clearToken{row: row}
	if tree := treeOf(row); tree > 0 {
		if err := cmp.Or(core.Hold(ctx, tree), core.Turn(ctx)); err != nil {
			return t, err
		}
	}
	row.Tenant = op.TenantID()
	var parts sealed.Parts
	place := sealed.TokenPlace(row, &parts)
	plain, err := op.Open(ctx, &place, row.KeyVersion, row.Body)
	if err != nil {
		return t, err
	}
	if t.Type = token.TypeOf(row.Type); t.Type == nil {
		err = errors.New("the type is unknown to this version")
	} else {
		err = t.Decode(plain)
	}
	if err != nil {
		return t, fmt.Errorf("vault: token %s: %w", uuid.UUID(row.Ord), err)
	}
	if row.CVC != nil && row.CVCExpiresAt.After(op.Now) {
		place = sealed.CVCPlace(row, &parts)
		cvc, err := op.Open(ctx, &place, row.KeyVersion, row.CVC)
		if err != nil {
			return t, err
		}
		t.CVC = string(cvc)
	}
	return t, nil
}

// view returns the token as a transform shows it. When the context has ended, a
// mask may not have been evaluated: the caller asks for that.
func (t *clearToken) view(ctx context.Context, transform access.Transform) *Token {
	out := &Token{}
	t.show(ctx, out, transform)
	return out
}

// redacted returns the token without its data.
func (t *clearToken) redacted() *Token {
	out := &Token{}
	t.fill(out)
	return out
}

// fill fills in everything but the data.
func (t *clearToken) fill(out *Token) {
	row := t.row
	*out = Token{
		ID: row.ID, TenantID: uuid.UUID(row.Tenant), Type: TokenType(row.Type), Mask: t.MaskText(),
		Fingerprint: ids.Encode58(row.Fingerprint), Containers: slices.Clone(row.Containers), Metadata: t.Metadata,
		SearchIndexes: slices.Clone(t.IndexesInForce()), FingerprintExpression: t.FingerprintInForce(),
		ExpiresAt: row.ExpiresAt, CreatedAt: row.CreatedAt, CreatedBy: uuid.UUID(row.CreatedBy),
		ModifiedAt: row.ModifiedAt, ModifiedBy: uuid.UUID(row.ModifiedBy),
	}
}

// show fills in the token as a transform shows it, as view does.
func (t *clearToken) show(ctx context.Context, out *Token, transform access.Transform) {
	t.fill(out)
	switch transform {
	case access.Reveal:
		out.Data = t.Plain().JSON()
	case access.None, access.Redact: // no data
	case access.Mask:
		out.Data = t.MaskedText(ctx)
	}
}

// shown returns the data that a transform leaves; absent when it is redacted.
func (t *clearToken) shown(ctx context.Context, transform access.Transform) jsonx.Value {
	switch transform {
	case access.Reveal:
		return t.Plain()
	case access.Mask:
		return t.Masked(ctx)
	default:
		return jsonx.Value{}
	}
}

// noteUse notes a token that is about to be shown, if it is for a run whose
// answer will be kept.
func (op *operation) noteUse(ctx context.Context, permission string, t *clearToken, shown access.Transform) {
	if !op.IsScripted() && op.Pending() == nil {
		return
	}
	uses := limits.LineageOf(ctx).Uses
	if uses == nil {
		return
	}
	use := kept.Use{Permission: permission, ID: t.row.ID, Ord: uuid.UUID(t.row.Ord), Shown: shown}
	if op.IsScripted() {
		use.As = op.ApplicationID()
	}
	if shown == access.Reveal && t.CVC != "" {
		use.CVCEnds = t.row.CVCExpiresAt
	}
	uses.Add(use)
}
