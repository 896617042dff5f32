package vault

import (
	"context"
	"errors"
	"iter"
	"math"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/form"
	"github.com/seed-72ea4aab/vault/storage"
)

// API is what an application can do with a vault, wherever the vault is: in
// the same process, through a [*Client], or behind HTTP, through the Client of
// package vaultclient. Code that takes an API, or one of the interfaces that it
// is made of, works with both; each method is documented at the method of
// [Client] with the same name.
//
// It leaves out what belongs to the program that has opened the vault: choosing
// and asking for an identity (As, AsUser, Check, TenantID, ApplicationID,
// ProxyID), Once, whose work runs in the vault's process, and
// RotateWebhookSecret. It leaves out RoundTripper too: its requests leave from
// the program itself, so over HTTP the data of tokens would have to come to the
// program first, which proxies are there to avoid. InvokeProxy has the vault
// send the request.
type API interface {
	TokenAPI
	TokenListAPI
	SessionAPI
	RunAPI
	AdminAPI
}

var _ API = (*Client)(nil)

// TokenAPI stores values and gets them back.
type TokenAPI interface {
	CreateToken(ctx context.Context, p TokenParams) (*Token, error)
	GetToken(ctx context.Context, id string) (*Token, error)
	UpdateToken(ctx context.Context, id string, patch any) (*Token, error)
	DeleteToken(ctx context.Context, id string) error
	Tokenize(ctx context.Context, document any) (JSON, error)
	Detokenize(ctx context.Context, document any) (JSON, error)
}

// TokenListAPI finds tokens.
type TokenListAPI interface {
	ListTokens(ctx context.Context, p ListTokensParams) (*Page[Token], error)
	AllTokens(ctx context.Context, p ListTokensParams) iter.Seq2[*Token, error]
	SearchTokens(ctx context.Context, p SearchTokensParams) (*Page[Token], error)
}

// SessionAPI makes short-lived keys.
type SessionAPI interface {
	CreateSession(ctx context.Context) (*Session, error)
	AuthorizeSession(ctx context.Context, g Grant) error
}

// RunAPI uses tokens where their data is needed: in code, and at a destination.
type RunAPI interface {
	React(ctx context.Context, id uuid.UUID, p ReactParams) (*ReactResult, error)
	InvokeProxy(ctx context.Context, p ProxyCall) (*ProxyAnswer, error)
}

// AdminAPI administers a tenant, for the most part with a management key.
type AdminAPI interface {
	ApplicationAPI
	KeyAPI
	ReactorAPI
	ProxyAPI
	TenantAPI
}

// ApplicationAPI administers applications.
type ApplicationAPI interface {
	CreateApplication(ctx context.Context, p ApplicationParams) (*Application, error)
	GetApplication(ctx context.Context, id uuid.UUID) (*Application, error)
	ListApplications(ctx context.Context, p ListApplicationsParams) (*Page[Application], error)
	ReplaceApplication(ctx context.Context, id uuid.UUID, p ApplicationParams) (*Application, error)
	PatchApplication(ctx context.Context, id uuid.UUID, patch JSON) (*Application, error)
	DeleteApplication(ctx context.Context, id uuid.UUID) error
}

// KeyAPI is about API keys and what they can be allowed.
type KeyAPI interface {
	OwnApplication(ctx context.Context) (*Application, error)
	RegenerateKey(ctx context.Context, id uuid.UUID) (*Application, error)
	ListPermissions(ctx context.Context) ([]Permission, error)
}

// ReactorAPI administers reactors.
type ReactorAPI interface {
	CreateReactor(ctx context.Context, p ReactorParams) (*Reactor, error)
	GetReactor(ctx context.Context, id uuid.UUID) (*Reactor, error)
	ListReactors(ctx context.Context, p ListReactorsParams) (*Page[Reactor], error)
	ReplaceReactor(ctx context.Context, id uuid.UUID, p ReactorParams) (*Reactor, error)
	PatchReactor(ctx context.Context, id uuid.UUID, patch JSON) (*Reactor, error)
	DeleteReactor(ctx context.Context, id uuid.UUID) error
}

// ProxyAPI administers proxies.
type ProxyAPI interface {
	CreateProxy(ctx context.Context, p ProxyParams) (*Proxy, error)
	GetProxy(ctx context.Context, id uuid.UUID) (*Proxy, error)
	ListProxies(ctx context.Context, p ListProxiesParams) (*Page[Proxy], error)
	ReplaceProxy(ctx context.Context, id uuid.UUID, p ProxyParams) (*Proxy, error)
	PatchProxy(ctx context.Context, id uuid.UUID, patch JSON) (*Proxy, error)
	DeleteProxy(ctx context.Context, id uuid.UUID) error
}

// TenantAPI is about the tenant itself and its audit log.
type TenantAPI interface {
	GetTenant(ctx context.Context) (*Tenant, error)
	UpdateTenant(ctx context.Context, p TenantParams) (*Tenant, error)
	ListLogs(ctx context.Context, p ListLogsParams) (*Page[LogEntry], error)
	ListEntityTypes(ctx context.Context) ([]EntityType, error)
}

// Bounds on pages.
const (
	defaultPageSize = 20
	maxPageSize     = 100
)

// PageParams asks for a page of a list. Zero values mean the first page and
// the default size of 20; a page holds at most 100 items, and no more bytes than
// [Config.MaxPageBytes].
type PageParams struct {
	Page int
	Size int
}

// normal fills in the defaults and checks the bounds.
func (p PageParams) normal() (PageParams, error) {
	bad := &form.Problems{}
	if p.Page == 0 {
		p.Page = 1
	}
	if p.Size == 0 {
		p.Size = defaultPageSize
	}
	if p.Page < 1 || p.Page > math.MaxInt32 {
		bad.Add("page", "must be a number from 1 to %d", math.MaxInt32)
	}
	if p.Size < 1 || p.Size > maxPageSize {
		bad.Add("size", "must be a number from 1 to %d", maxPageSize)
	}
	return p, asInvalid(bad)
}

// readPage reads page and size. A zero that is given is out of bounds, unlike
// one that is not.
func readPage(r *form.Reader) (p PageParams) {
	for name, dst := range map[string]*int{"page": &p.Page, "size": &p.Size} {
		n, ok := r.Int(name)
		if *dst = n; ok && n == 0 {
			*dst = -1
		}
	}
	return p
}

func (p PageParams) offset() int { return (p.Page - 1) * p.Size }

// Page is one page of a list.
type Page[T any] struct {
	Pagination Pagination `json:"pagination"`
	Data       []T        `json:"data"`
}

// Pagination says where a page stands in its list.
type Pagination struct {
	TotalItems int `json:"total_items"` // over all pages
	PageNumber int `json:"page_number"`
	PageSize   int `json:"page_size"`
	TotalPages int `json:"total_pages"`
}

func newPage[T any](p PageParams, total int) *Page[T] {
	return &Page[T]{
		Pagination: Pagination{TotalItems: total, PageNumber: p.Page, PageSize: p.Size, TotalPages: (total + p.Size - 1) / p.Size},
		Data:       []T{},
	}
}

// pageError says of a page that holds too much what to do about it.
func (op *operation) pageError(err error) error {
	if errors.Is(err, storage.ErrTooLarge) {
		return invalid("size", "must be smaller: the items on this page have more than %d bytes; ask for fewer at a time", op.maxPageBytes())
	}
	return err
}

// batches is the size of the next page of a walk over a list. The caller did not
// choose it, so pages have fewer items where these are large.
type batches struct{ size, most int }

func newBatches(most int) batches { return batches{most, most} }

// nextBatch reads a page, a smaller one while it holds too much, and reports
// whether there may be another.
func nextBatch[T any](b *batches, read func(limit int) ([]T, error)) (rows []T, more bool, err error) {
	for {
		limit := b.size
		rows, err := read(limit)
		if errors.Is(err, storage.ErrTooLarge) && limit > 1 {
			b.size = limit / 2
			continue
		}
		b.size = min(2*limit, b.most) // items that come later may be small again
		return rows, len(rows) == limit, err
	}
}
