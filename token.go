package vault

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/erase"
	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/internal/jsonx"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/internal/tokens"
)

// Token stands in for a value. The rights of the caller decide whether Data shows
// the data itself, its mask, or nothing.
//
// An absent time or id is zero here, as everywhere in this package. A token without
// ExpiresAt never expires, and a token without ModifiedAt was never changed.
// CreatedBy and CreatedAt are zero only on a duplicate that the client may not
// read: see [Client.CreateToken].
type Token struct {
	ID       string    `json:"id"`
	TenantID uuid.UUID `json:"tenant_id"`
	Type     TokenType `json:"type"`
	Data     JSON      `json:"data,omitempty"`
	// Transform reports what Data is: the data itself, its mask, or nothing. It is empty
	// on an Unreadable token. Over HTTP it is sent only with ?transform=true.
	Transform Transform `json:"transform,omitempty"`
	// Mask is the active mask, an expression or a tree of expressions.
	Mask JSON `json:"mask,omitempty"`
	// Enrichments is set only on whole tokens in detokenization expressions.
	Enrichments *struct {
		Card *struct {
			Brand string `json:"brand"` // visa, mastercard, ...; unknown outside known ranges
			BIN   string `json:"bin"`   // 8 digits if the number has 16 or more, otherwise 6
			Last4 string `json:"last4"`
		} `json:"card,omitempty"`
	} `json:"enrichments,omitempty"`
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
	// Unreadable is set in lists for a token whose row was altered or does not
	// open. Such a token has only ID, TenantID, Type and CreatedAt.
	Unreadable bool `json:"unreadable,omitempty"`
}

// TokenType is the kind of value that a token holds. It decides how data is
// validated, masked and fingerprinted by default.
type TokenType string

// The types of tokens.
const (
	TypeGeneric              TokenType = "token"                  // any JSON except null
	TypeCard                 TokenType = "card"                   // see CardData
	TypeBank                 TokenType = "bank"                   // see BankData
	TypeCardNumber           TokenType = "card_number"            // a string of 12 to 19 digits
	TypeUSBankAccountNumber  TokenType = "us_bank_account_number" // a string of 3 to 17 digits
	TypeUSBankRoutingNumber  TokenType = "us_bank_routing_number" // a string of 9 digits
	TypeSocialSecurityNumber TokenType = "social_security_number" // a string of 9 digits, with dashes or without
	TypeEmployerIDNumber     TokenType = "employer_id_number"     // likewise
)

// CardData is the data of a TypeCard token. It is hidden when printed or logged:
// see the package comment.
type CardData struct {
	Number          string `json:"number"` // without separators
	ExpirationMonth int    `json:"expiration_month,omitempty"`
	ExpirationYear  int    `json:"expiration_year,omitempty"`
	CVC             string `json:"cvc,omitempty"` // deleted an hour after it was given
}

// value returns the same value as encoding/json, without reflection.
func (d CardData) value() jsonx.Value {
	return token.CardValue(d.Number, d.ExpirationMonth, d.ExpirationYear, d.CVC)
}

// BankData is the data of a TypeBank token. It is hidden when printed or logged:
// see the package comment.
type BankData struct {
	RoutingNumber string `json:"routing_number"`
	AccountNumber string `json:"account_number"`
}

// TokenParams describes a token to create. Only Type and Data are required. Data is
// hidden when printed or logged: see the package comment.
type TokenParams struct {
	// ID is the id of the token; it may be an expression. Default: a UUID.
	ID   string
	Type TokenType
	// Data is the value: JSON text (a [JSON] or a json.RawMessage), or any other
	// value that encodes to JSON. A []byte is refused: see [EncodeJSON].
	Data any
	// Mask is an expression, or any JSON with expressions in its strings.
	Mask any
	// Containers group tokens; access rules refer to them. Default: the default of
	// the type.
	Containers []string
	Metadata   map[string]string // not sensitive
	// SearchIndexes are expressions whose values SearchTokens finds the token by.
	// Nil means the default of the type, empty means none.
	SearchIndexes         []string
	FingerprintExpression string
	// DeduplicateToken makes the call return an existing token with the same
	// content instead. Nil means the tenant's setting.
	DeduplicateToken *bool
	// ExpiresAt is when the token expires. Zero means never.
	ExpiresAt time.Time
}

// UnmarshalJSON reads the JSON form strictly: an unknown field, a duplicate
// key or a wrong type is an [InvalidError].
func (p *TokenParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) {
		var read tokens.Params
		read.Read(r)
		*p = paramsOf(read)
	})
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p TokenParams) MarshalJSON() ([]byte, error) {
	inside := p.inside()
	text, err := inside.JSON()
	return text, public(err)
}

// inside returns the parameters in the type of the internal package.
func (p *TokenParams) inside() tokens.Params {
	return tokens.Params{
		ID: p.ID, Type: string(p.Type), Data: plainJSON(p.Data), Mask: plainJSON(p.Mask), Containers: p.Containers, Metadata: p.Metadata,
		SearchIndexes: p.SearchIndexes, FingerprintExpression: p.FingerprintExpression,
		DeduplicateToken: p.DeduplicateToken, ExpiresAt: p.ExpiresAt,
	}
}

func paramsOf(p tokens.Params) TokenParams {
	return TokenParams{
		ID: p.ID, Type: TokenType(p.Type), Data: publicJSON(p.Data), Mask: publicJSON(p.Mask), Containers: p.Containers, Metadata: p.Metadata,
		SearchIndexes: p.SearchIndexes, FingerprintExpression: p.FingerprintExpression,
		DeduplicateToken: p.DeduplicateToken, ExpiresAt: p.ExpiresAt,
	}
}

// tokenOf converts a token of the internal package.
func tokenOf(t tokens.Token) Token {
	out := Token{
		ID: t.ID, TenantID: t.TenantID, Type: TokenType(t.Type), Data: JSON(t.Data), Mask: JSON(t.Mask), Fingerprint: t.Fingerprint,
		Containers: t.Containers, Metadata: t.Metadata, SearchIndexes: t.SearchIndexes, FingerprintExpression: t.FingerprintExpression,
		ExpiresAt: t.ExpiresAt, CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt, ModifiedBy: t.ModifiedBy, ModifiedAt: t.ModifiedAt,
		Unreadable: t.Unreadable,
	}
	switch {
	case t.Revealed:
		out.Transform = TransformReveal
	case t.Data != nil:
		out.Transform = TransformMask
	case !t.Unreadable:
		out.Transform = TransformRedact
	}
	return out
}

// newToken is tokenOf with a pointer as its result.
func newToken(t tokens.Token) *Token {
	out := tokenOf(t)
	return &out
}

// CreateToken stores a value and returns its token, with masked data (permission
// token:create on each container).
//
// With deduplication on, an existing token with the same content is returned
// instead, and nothing is stored. A client that may not read that token sees only
// its id, type, fingerprint and containers.
func (c *Client) CreateToken(ctx context.Context, p TokenParams) (*Token, error) {
	return runTo(ctx, c, &core.VerbCreateToken, newToken, func(ctx context.Context, op *core.Op) (tokens.Token, error) {
		inside := p.inside()
		return tokens.Create(ctx, op, &inside)
	})
}

// GetToken returns a token as the client may see it (permission token:read).
func (c *Client) GetToken(ctx context.Context, id string) (*Token, error) {
	return runTo(ctx, c, &core.VerbGetToken, newToken, func(ctx context.Context, op *core.Op) (tokens.Token, error) { return tokens.Get(ctx, op, id) })
}

// PatchToken applies a JSON merge patch (RFC 7386) to a token and returns the token
// masked. It needs the permission token:update on the token's containers, and on
// the new containers if it moves. A client that may not read the token gets only
// its id, type and containers. The patch is read as by [EncodeJSON].
//
// The patch may hold data, mask and metadata, which are merged. It may also hold
// containers, search_indexes, fingerprint_expression, deduplicate_token and
// expires_at, which are replaced; null restores the default.
//
// A patch that changes the mask, fingerprint expression or search indexes of data
// that stays stored needs the right to see that data in plaintext. A patch that
// moves the token must not show the client more of it than before. A patch that
// would make the token a duplicate changes nothing and returns the existing token,
// as CreateToken does.
func (c *Client) PatchToken(ctx context.Context, id string, patch any) (*Token, error) {
	return runTo(ctx, c, &core.VerbPatchToken, newToken, func(ctx context.Context, op *core.Op) (tokens.Token, error) {
		return tokens.Patch(ctx, op, id, plainJSON(patch))
	})
}

// DeleteToken deletes a token (permission token:delete).
func (c *Client) DeleteToken(ctx context.Context, id string) error {
	return runErr(ctx, c, &core.VerbDeleteToken, func(ctx context.Context, op *core.Op) error { return tokens.Delete(ctx, op, id) })
}

// EraseParams selects the tokens to erase, by a query or by their ids, and gives
// the reason. The query may hold data, so it is hidden when printed or logged: see
// the package comment.
type EraseParams struct {
	// Query selects the tokens: see [SearchTokensParams]. It is empty if there are
	// IDs.
	Query string
	// IDs are the ids of 1 to 1,000 tokens. It is nil if there is a Query.
	IDs []string
	// Reason is stored in the log for as long as the log is kept, so name a case or
	// a ticket, not a person. It has 1 to 500 characters.
	Reason string
}

// UnmarshalJSON is strict, as [TokenParams.UnmarshalJSON] is.
func (p *EraseParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) { p.Query, p.IDs, p.Reason = r.Text("query"), r.Texts("ids"), r.Text("reason") })
}

// MarshalJSON writes the JSON form, which UnmarshalJSON reads.
func (p EraseParams) MarshalJSON() ([]byte, error) {
	w := &form.Writer{}
	w.Text("query", p.Query)
	w.Texts("ids", p.IDs)
	w.Text("reason", p.Reason)
	return w.JSON(), nil
}

// Erasure is the outcome of [Client.EraseTokens].
type Erasure struct {
	// ID is also the id of the erasure's entry in the log, for [Client.LogProof].
	ID     uuid.UUID `json:"id"`
	Reason string    `json:"reason"`
	// Count is the number of tokens that this call erased.
	Count int `json:"count"`
	// Left is the number of tokens that the call found and did not erase, because
	// it ran out of time, the client may search but not delete them, or their rows
	// do not open.
	Left      int       `json:"left"`
	CreatedAt time.Time `json:"created_at"`
}

// EraseTokens deletes all tokens that match a query and that the client may search
// and delete (permissions token:search and token:delete), or the tokens with some
// ids that the client may delete (permission token:delete). An id of a token that
// does not exist, or that the client may not see, has no effect and is not counted.
//
// EraseTokens also deletes the stored responses of idempotency keys that name or
// used the tokens, and pending jobs and undelivered results that use them. A
// request that is repeated with such a key gets [ErrWithdrawn]. The log gets an
// entry for each token, and an entry for the erasure with its reason.
//
// One call works for at most 30 seconds. While Left is not zero, call it again.
// Call it again after an error or a crash, too: erased tokens stay erased, and a
// sweep deletes what depends on them. A run of code that is using a token at the
// time may still deliver its result. A sweep deletes what the run stored, within 20
// minutes.
//
// With a client of [Client.InTx] the erasure is part of the transaction, and the
// first sweep after the commit deletes what depends on the tokens. EraseTokens
// cannot be part of [Client.Once].
func (c *Client) EraseTokens(ctx context.Context, p EraseParams) (*Erasure, error) {
	return run(ctx, c, &core.VerbEraseTokens, func(ctx context.Context, op *core.Op) (*Erasure, error) {
		done, err := erase.Tokens(ctx, op, erase.Params(p))
		return (*Erasure)(done), err
	})
}
