// Package verbs describes the verbs of a client: the permission that each
// needs, and where it can be used.
package verbs

import (
	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// The kinds of verbs for observers.
const (
	kindCreate = "create"
	kindRead   = "read"
	kindUpdate = "update"
	kindDelete = "delete"
	kindReact  = "react"
	kindProxy  = "proxy"
	kindMove   = "move"  // import and export
	kindAdmin  = "admin" // everything except tokens
)

// The verbs of a client.
var (
	CreateToken       = core.Verb{Name: "CreateToken", Kind: kindCreate, Permission: access.TokenCreate, Large: true}
	Tokenize          = core.Verb{Name: "Tokenize", Kind: kindCreate, Permission: access.TokenCreate, Large: true}
	GetToken          = core.Verb{Name: "GetToken", Kind: kindRead, Permission: access.TokenRead}
	ListTokens        = core.Verb{Name: "ListTokens", Kind: kindRead, Permission: access.TokenRead, Large: true}
	ListTokensAfter   = core.Verb{Name: "ListTokensAfter", Kind: kindRead, Permission: access.TokenRead, Large: true}
	AllTokens         = core.Verb{Name: "AllTokens", Kind: kindRead, Permission: access.TokenRead, Large: true}
	SearchTokens      = core.Verb{Name: "SearchTokens", Kind: kindRead, Permission: access.TokenSearch, Large: true}
	SearchTokensAfter = core.Verb{Name: "SearchTokensAfter", Kind: kindRead, Permission: access.TokenSearch, Large: true}
	SearchAllTokens   = core.Verb{Name: "SearchAllTokens", Kind: kindRead, Permission: access.TokenSearch, Large: true}
	Detokenize        = core.Verb{Name: "Detokenize", Kind: kindRead, Permission: access.TokenUse, Large: true}
	PatchToken        = core.Verb{Name: "PatchToken", Kind: kindUpdate, Permission: access.TokenUpdate, Large: true}
	DeleteToken       = core.Verb{Name: "DeleteToken", Kind: kindDelete, Permission: access.TokenDelete}
	EraseTokens       = core.Verb{Name: "EraseTokens", Kind: kindDelete, Permission: access.TokenDelete, Where: core.OutsideOnce, Large: true}
	Import            = core.Verb{Name: "Import", Kind: kindMove, Permission: access.TokenCreate, Where: core.Alone}
	Export            = core.Verb{Name: "Export", Kind: kindMove, Permission: access.TokenUse, Where: core.Alone}

	React        = core.Verb{Name: "React", Kind: kindReact, Permission: access.TokenUse, Where: core.OutsideTx, Large: true}
	ReactAsync   = core.Verb{Name: "ReactAsync", Kind: kindReact, Permission: access.TokenUse, Where: core.OutsideTx, Large: true}
	TestRun      = core.Verb{Name: "TestRun", Kind: kindReact, Only: "test code", Where: core.OutsideTx}
	InvokeProxy  = core.Verb{Name: "InvokeProxy", Kind: kindProxy, Where: core.OutsideTx, Large: true}
	RoundTripper = core.Verb{Name: "RoundTripper", Kind: kindProxy, Where: core.OutsideTx}
	ListJobs     = core.Verb{Name: "ListJobs", Kind: kindAdmin, Only: "administer its jobs", Where: core.OutsideTx}
	RetryJob     = core.Verb{Name: "RetryJob", Kind: kindAdmin, Only: "administer its jobs", Where: core.OutsideTx}
	DiscardJob   = core.Verb{Name: "DiscardJob", Kind: kindAdmin, Only: "administer its jobs", Where: core.OutsideTx}

	CreateReactor  = core.Verb{Name: "CreateReactor", Kind: kindAdmin, Permission: access.ReactorCreate}
	ApplyReactor   = core.Verb{Name: "ApplyReactor", Kind: kindAdmin, Permission: access.ReactorRead}
	EnsureReactor  = core.Verb{Name: "EnsureReactor", Kind: kindAdmin, Permission: access.ReactorRead}
	GetReactor     = core.Verb{Name: "GetReactor", Kind: kindAdmin, Permission: access.ReactorRead}
	ListReactors   = core.Verb{Name: "ListReactors", Kind: kindAdmin, Permission: access.ReactorRead}
	AllReactors    = core.Verb{Name: "AllReactors", Kind: kindAdmin, Permission: access.ReactorRead}
	ReplaceReactor = core.Verb{Name: "ReplaceReactor", Kind: kindAdmin, Permission: access.ReactorUpdate}
	PatchReactor   = core.Verb{Name: "PatchReactor", Kind: kindAdmin, Permission: access.ReactorUpdate}
	DeleteReactor  = core.Verb{Name: "DeleteReactor", Kind: kindAdmin, Permission: access.ReactorDelete}

	CreateProxy  = core.Verb{Name: "CreateProxy", Kind: kindAdmin, Permission: access.ProxyCreate}
	ApplyProxy   = core.Verb{Name: "ApplyProxy", Kind: kindAdmin, Permission: access.ProxyRead}
	EnsureProxy  = core.Verb{Name: "EnsureProxy", Kind: kindAdmin, Permission: access.ProxyRead}
	GetProxy     = core.Verb{Name: "GetProxy", Kind: kindAdmin, Permission: access.ProxyRead}
	ListProxies  = core.Verb{Name: "ListProxies", Kind: kindAdmin, Permission: access.ProxyRead}
	AllProxies   = core.Verb{Name: "AllProxies", Kind: kindAdmin, Permission: access.ProxyRead}
	ReplaceProxy = core.Verb{Name: "ReplaceProxy", Kind: kindAdmin, Permission: access.ProxyUpdate}
	PatchProxy   = core.Verb{Name: "PatchProxy", Kind: kindAdmin, Permission: access.ProxyUpdate}
	DeleteProxy  = core.Verb{Name: "DeleteProxy", Kind: kindAdmin, Permission: access.ProxyDelete}

	CreateApplication  = core.Verb{Name: "CreateApplication", Kind: kindAdmin, Permission: access.ApplicationCreate}
	ApplyApplication   = core.Verb{Name: "ApplyApplication", Kind: kindAdmin, Permission: access.ApplicationRead}
	EnsureApplication  = core.Verb{Name: "EnsureApplication", Kind: kindAdmin, Permission: access.ApplicationRead}
	GetApplication     = core.Verb{Name: "GetApplication", Kind: kindAdmin, Permission: access.ApplicationRead}
	OwnApplication     = core.Verb{Name: "OwnApplication", Kind: kindAdmin}
	ListApplications   = core.Verb{Name: "ListApplications", Kind: kindAdmin, Permission: access.ApplicationRead}
	AllApplications    = core.Verb{Name: "AllApplications", Kind: kindAdmin, Permission: access.ApplicationRead}
	ReplaceApplication = core.Verb{Name: "ReplaceApplication", Kind: kindAdmin, Permission: access.ApplicationUpdate}
	PatchApplication   = core.Verb{Name: "PatchApplication", Kind: kindAdmin, Permission: access.ApplicationUpdate}
	RegenerateKey      = core.Verb{Name: "RegenerateKey", Kind: kindAdmin, Permission: access.ApplicationUpdate}
	DeleteApplication  = core.Verb{Name: "DeleteApplication", Kind: kindAdmin, Permission: access.ApplicationDelete}
	ListPermissions    = core.Verb{Name: "ListPermissions", Kind: kindAdmin}
	Explain            = core.Verb{Name: "Explain", Kind: kindAdmin, Permission: access.ApplicationRead}

	CreateSession    = core.Verb{Name: "CreateSession", Kind: kindAdmin}
	AuthorizeSession = core.Verb{Name: "AuthorizeSession", Kind: kindAdmin}
	ListSessions     = core.Verb{Name: "ListSessions", Kind: kindAdmin, Permission: access.SessionRead}
	AllSessions      = core.Verb{Name: "AllSessions", Kind: kindAdmin, Permission: access.SessionRead}
	DeleteSession    = core.Verb{Name: "DeleteSession", Kind: kindAdmin, Permission: access.SessionDelete}

	GetTenant           = core.Verb{Name: "GetTenant", Kind: kindAdmin, Permission: access.TenantRead, Where: core.OutsideTx}
	ReplaceTenant       = core.Verb{Name: "ReplaceTenant", Kind: kindAdmin, Permission: access.TenantUpdate, Where: core.OutsideTx}
	PatchTenant         = core.Verb{Name: "PatchTenant", Kind: kindAdmin, Permission: access.TenantUpdate, Where: core.OutsideTx}
	RotateWebhookSecret = core.Verb{Name: "RotateWebhookSecret", Kind: kindAdmin, Permission: access.TenantUpdate, Where: core.OutsideTx}
	Stats               = core.Verb{Name: "Stats", Kind: kindAdmin, Only: "ask for its figures", Where: core.OutsideTx}

	ListLogs        = core.Verb{Name: "ListLogs", Kind: kindAdmin, Permission: access.LogRead}
	AllLogs         = core.Verb{Name: "AllLogs", Kind: kindAdmin, Permission: access.LogRead}
	NextLogs        = core.Verb{Name: "NextLogs", Kind: kindAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	FollowLogs      = core.Verb{Name: "FollowLogs", Kind: kindAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	LogCheckpoint   = core.Verb{Name: "LogCheckpoint", Kind: kindAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	LogProof        = core.Verb{Name: "LogProof", Kind: kindAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	LogConsistency  = core.Verb{Name: "LogConsistency", Kind: kindAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	ExportEvidence  = core.Verb{Name: "ExportEvidence", Kind: kindAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	ListEntityTypes = core.Verb{Name: "ListEntityTypes", Kind: kindAdmin, Permission: access.LogRead}
)

// Verbs that observers do not see, because they only look up an identity or
// are part of other work.
var (
	As            = core.Verb{Name: "As", Only: "act as one of its applications"}
	HasPermission = core.Verb{Name: "HasPermission"}
	Once          = core.Verb{Name: "Once", Where: core.OutsideTx}
	Find          = core.Verb{Name: "FindProxy"}
)
