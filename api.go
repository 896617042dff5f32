package vault

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"
)

// API is the set of operations on a vault, wherever the vault runs: in the same
// process, through a [*Client], or behind HTTP, through the Client of package
// vaultclient. Code that takes an API, or one of its embedded interfaces, works
// with both. Each method is documented at the method of [Client] with the same
// name.
//
// API and its embedded interfaces may gain methods in any release. A fake for a
// test should embed the interface and implement the methods that the test needs. It
// then still compiles, and methods that it lacks panic:
//
//	type fake struct{ vault.API }
//
//	func (fake) CreateToken(context.Context, vault.TokenParams) (*vault.Token, error) {
//		return &vault.Token{ID: "tok"}, nil
//	}
//
// API leaves out the methods that only make sense in the process of the vault:
//
//   - the identity: [Client.TenantID], [Client.ApplicationID], [Client.AsUser],
//     [Client.From], [Client.Masked], [Client.HasPermission];
//   - printing: [Client.Format], [Client.LogValue];
//   - transactions and idempotency: [Client.InTx] and [Client.Once], which run in the
//     process;
//   - the setup of a program: [Client.EnsureApplication], [Client.EnsureReactor],
//     [Client.EnsureProxy], [Client.PatchTenant], [Client.RotateWebhookSecret];
//   - the evidence of the log: [Client.LogCheckpoint], [Client.LogProof],
//     [Client.LogConsistency], [Client.ExportEvidence];
//   - [Client.Export], which reads plaintext;
//   - [Client.RoundTripper], because its requests are sent by the program itself.
//     Over HTTP, the program would first have to fetch the data of the tokens.
//     With InvokeProxy, the vault sends the request.
//
// API does not include the methods of [Owner] either.
type API interface { //nolint:interfacebloat // each of its parts has at most 6 methods
	TokenAPI
	TokenListAPI
	SessionAPI
	RunAPI
	LogAPI
	TenantAPI
	ApplicationAPI
	ApplicationKeyAPI
	ReactorAPI
	ProxyAPI
	ApplyAPI
	ClockAPI
}

var _ API = (*Client)(nil)

// TokenAPI stores and returns values.
type TokenAPI interface {
	CreateToken(ctx context.Context, p TokenParams) (*Token, error)
	GetToken(ctx context.Context, id string) (*Token, error)
	PatchToken(ctx context.Context, id string, patch any) (*Token, error)
	DeleteToken(ctx context.Context, id string) error
	Tokenize(ctx context.Context, document any) (JSON, error)
	Detokenize(ctx context.Context, document any) (JSON, error)
}

// TokenListAPI works on any number of tokens.
type TokenListAPI interface {
	ListTokens(ctx context.Context, p ListTokensParams) (*Page[Token], error)
	ListTokensAfter(ctx context.Context, sel TokenSelection, after string) (*CursorPage[Token], error)
	SearchTokens(ctx context.Context, p SearchTokensParams) (*Page[Token], error)
	AllTokens(ctx context.Context, sel TokenSelection) iter.Seq2[*Token, error]
	Import(ctx context.Context, rows iter.Seq2[TokenParams, error], opts *ImportOptions) iter.Seq2[ImportResult, error]
	EraseTokens(ctx context.Context, p EraseParams) (*Erasure, error)
}

// SessionAPI creates and ends sessions.
type SessionAPI interface {
	CreateSession(ctx context.Context) (*Session, error)
	AuthorizeSession(ctx context.Context, g SessionGrant) error
	ListSessions(ctx context.Context, p PageParams) (*Page[SessionInfo], error)
	AllSessions(ctx context.Context) iter.Seq2[*SessionInfo, error]
	DeleteSession(ctx context.Context, id uuid.UUID) error
}

// RunAPI uses the data of tokens in code and at destinations.
type RunAPI interface {
	React(ctx context.Context, id uuid.UUID, p ReactParams) (*ReactResult, error)
	ReactAsync(ctx context.Context, id uuid.UUID, p ReactParams) (*Job, error)
	InvokeProxy(ctx context.Context, p ProxyCall) (*ProxyAnswer, error)
}

// LogAPI reads the audit log of the tenant.
type LogAPI interface {
	ListLogs(ctx context.Context, p ListLogsParams) (*Page[LogEntry], error)
	AllLogs(ctx context.Context, p ListLogsParams) iter.Seq2[*LogEntry, error]
	ListEntityTypes(ctx context.Context) ([]EntityType, error)
	FollowLogs(ctx context.Context, cursor string) iter.Seq2[*LogBatch, error]
	NextLogs(ctx context.Context, cursor string, wait time.Duration) (*LogBatch, error)
}

// TenantAPI administers the tenant itself, and reports what its keys may do.
type TenantAPI interface {
	GetTenant(ctx context.Context) (*Tenant, error)
	ReplaceTenant(ctx context.Context, p TenantParams) (*Tenant, error)
	OwnApplication(ctx context.Context) (*Application, error)
	RegenerateKey(ctx context.Context, id uuid.UUID) (*Application, error)
	ListPermissions(ctx context.Context) ([]PermissionInfo, error)
	Explain(ctx context.Context, p ExplainParams) (*Explanation, error)
}

// ApplicationAPI administers applications.
type ApplicationAPI interface {
	CreateApplication(ctx context.Context, p ApplicationParams) (*Application, error)
	GetApplication(ctx context.Context, id uuid.UUID) (*Application, error)
	ListApplications(ctx context.Context, p ListApplicationsParams) (*Page[Application], error)
	ReplaceApplication(ctx context.Context, id uuid.UUID, p ApplicationParams) (*Application, error)
	PatchApplication(ctx context.Context, id uuid.UUID, patch any) (*Application, error)
	DeleteApplication(ctx context.Context, id uuid.UUID) error
}

// ApplicationKeyAPI administers the keys of applications.
type ApplicationKeyAPI interface {
	CreateApplicationKey(ctx context.Context, application uuid.UUID, p ApplicationKeyParams) (*ApplicationKey, error)
	ListApplicationKeys(ctx context.Context, application uuid.UUID) ([]ApplicationKey, error)
	GetApplicationKey(ctx context.Context, application, key uuid.UUID) (*ApplicationKey, error)
	DeleteApplicationKey(ctx context.Context, application, key uuid.UUID) error
}

// ReactorAPI administers reactors.
type ReactorAPI interface {
	CreateReactor(ctx context.Context, p ReactorParams) (*Reactor, error)
	GetReactor(ctx context.Context, id uuid.UUID) (*Reactor, error)
	ListReactors(ctx context.Context, p ListParams) (*Page[Reactor], error)
	ReplaceReactor(ctx context.Context, id uuid.UUID, p ReactorParams) (*Reactor, error)
	PatchReactor(ctx context.Context, id uuid.UUID, patch any) (*Reactor, error)
	DeleteReactor(ctx context.Context, id uuid.UUID) error
}

// ProxyAPI administers proxies.
type ProxyAPI interface {
	CreateProxy(ctx context.Context, p ProxyParams) (*Proxy, error)
	GetProxy(ctx context.Context, id uuid.UUID) (*Proxy, error)
	ListProxies(ctx context.Context, p ListParams) (*Page[Proxy], error)
	ReplaceProxy(ctx context.Context, id uuid.UUID, p ProxyParams) (*Proxy, error)
	PatchProxy(ctx context.Context, id uuid.UUID, patch any) (*Proxy, error)
	DeleteProxy(ctx context.Context, id uuid.UUID) error
}

// ApplyAPI works on all applications, reactors and proxies: it iterates over them,
// and creates or changes them to match their parameters.
type ApplyAPI interface {
	AllApplications(ctx context.Context, p ListApplicationsParams) iter.Seq2[*Application, error]
	AllReactors(ctx context.Context, p ListParams) iter.Seq2[*Reactor, error]
	AllProxies(ctx context.Context, p ListParams) iter.Seq2[*Proxy, error]
	ApplyApplication(ctx context.Context, p ApplicationParams) (*Applied[Application], error)
	ApplyReactor(ctx context.Context, p ReactorParams) (*Applied[Reactor], error)
	ApplyProxy(ctx context.Context, p ProxyParams) (*Applied[Proxy], error)
}

// ClockAPI tells the time of the vault's clock, which decides when tokens expire.
type ClockAPI interface {
	Now(ctx context.Context) (time.Time, error)
}
