package core

import "github.com/seed-72ea4aab/vault/internal/access"

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

// The verbs of a client: the permission that each requires, and where it works.
var (
	VerbCreateToken       = Verb{Name: "CreateToken", Kind: kindCreate, Permission: access.TokenCreate, Large: true}
	VerbTokenize          = Verb{Name: "Tokenize", Kind: kindCreate, Permission: access.TokenCreate, Large: true}
	VerbGetToken          = Verb{Name: "GetToken", Kind: kindRead, Permission: access.TokenRead}
	VerbListTokens        = Verb{Name: "ListTokens", Kind: kindRead, Permission: access.TokenRead, Large: true}
	VerbListTokensAfter   = Verb{Name: "ListTokensAfter", Kind: kindRead, Permission: access.TokenRead, Large: true}
	VerbAllTokens         = Verb{Name: "AllTokens", Kind: kindRead, Permission: access.TokenRead, Large: true}
	VerbSearchTokens      = Verb{Name: "SearchTokens", Kind: kindRead, Permission: access.TokenSearch, Large: true}
	VerbSearchTokensAfter = Verb{Name: "ListTokensAfter", Kind: kindRead, Permission: access.TokenSearch, Large: true}
	VerbSearchAllTokens   = Verb{Name: "AllTokens", Kind: kindRead, Permission: access.TokenSearch, Large: true}
	VerbDetokenize        = Verb{Name: "Detokenize", Kind: kindRead, Permission: access.TokenUse, Large: true}
	VerbPatchToken        = Verb{Name: "PatchToken", Kind: kindUpdate, Permission: access.TokenUpdate, Large: true}
	VerbDeleteToken       = Verb{Name: "DeleteToken", Kind: kindDelete, Permission: access.TokenDelete}
	VerbEraseTokens       = Verb{Name: "EraseTokens", Kind: kindDelete, Permission: access.TokenDelete, Where: OutsideOnce, Large: true}
	VerbImport            = Verb{Name: "Import", Kind: kindMove, Permission: access.TokenCreate, Where: Alone}
	VerbExport            = Verb{Name: "Export", Kind: kindMove, Permission: access.TokenUse, Where: Alone}

	VerbReact        = Verb{Name: "React", Kind: kindReact, Permission: access.TokenUse, Where: OutsideTx, Large: true}
	VerbReactAsync   = Verb{Name: "ReactAsync", Kind: kindReact, Permission: access.TokenUse, Where: OutsideTx, Large: true}
	VerbTestRun      = Verb{Name: "TestRun", Kind: kindReact, Only: "test code", Where: OutsideTx}
	VerbInvokeProxy  = Verb{Name: "InvokeProxy", Kind: kindProxy, Where: OutsideTx, Large: true}
	VerbRoundTripper = Verb{Name: "RoundTripper", Kind: kindProxy, Where: OutsideTx}
	VerbListJobs     = Verb{Name: "ListJobs", Kind: kindAdmin, Only: "administer its jobs", Where: OutsideTx}
	VerbRetryJob     = Verb{Name: "RetryJob", Kind: kindAdmin, Only: "administer its jobs", Where: OutsideTx}
	VerbDiscardJob   = Verb{Name: "DiscardJob", Kind: kindAdmin, Only: "administer its jobs", Where: OutsideTx}

	VerbCreateReactor  = Verb{Name: "CreateReactor", Kind: kindAdmin, Permission: access.ReactorCreate}
	VerbApplyReactor   = Verb{Name: "ApplyReactor", Kind: kindAdmin, Permission: access.ReactorRead}
	VerbEnsureReactor  = Verb{Name: "EnsureReactor", Kind: kindAdmin, Permission: access.ReactorRead}
	VerbGetReactor     = Verb{Name: "GetReactor", Kind: kindAdmin, Permission: access.ReactorRead}
	VerbListReactors   = Verb{Name: "ListReactors", Kind: kindAdmin, Permission: access.ReactorRead}
	VerbAllReactors    = Verb{Name: "AllReactors", Kind: kindAdmin, Permission: access.ReactorRead}
	VerbReplaceReactor = Verb{Name: "ReplaceReactor", Kind: kindAdmin, Permission: access.ReactorUpdate}
	VerbPatchReactor   = Verb{Name: "PatchReactor", Kind: kindAdmin, Permission: access.ReactorUpdate}
	VerbDeleteReactor  = Verb{Name: "DeleteReactor", Kind: kindAdmin, Permission: access.ReactorDelete}

	VerbCreateProxy  = Verb{Name: "CreateProxy", Kind: kindAdmin, Permission: access.ProxyCreate}
	VerbApplyProxy   = Verb{Name: "ApplyProxy", Kind: kindAdmin, Permission: access.ProxyRead}
	VerbEnsureProxy  = Verb{Name: "EnsureProxy", Kind: kindAdmin, Permission: access.ProxyRead}
	VerbGetProxy     = Verb{Name: "GetProxy", Kind: kindAdmin, Permission: access.ProxyRead}
	VerbListProxies  = Verb{Name: "ListProxies", Kind: kindAdmin, Permission: access.ProxyRead}
	VerbAllProxies   = Verb{Name: "AllProxies", Kind: kindAdmin, Permission: access.ProxyRead}
	VerbReplaceProxy = Verb{Name: "ReplaceProxy", Kind: kindAdmin, Permission: access.ProxyUpdate}
	VerbPatchProxy   = Verb{Name: "PatchProxy", Kind: kindAdmin, Permission: access.ProxyUpdate}
	VerbDeleteProxy  = Verb{Name: "DeleteProxy", Kind: kindAdmin, Permission: access.ProxyDelete}

	VerbCreateApplication  = Verb{Name: "CreateApplication", Kind: kindAdmin, Permission: access.ApplicationCreate}
	VerbApplyApplication   = Verb{Name: "ApplyApplication", Kind: kindAdmin, Permission: access.ApplicationRead}
	VerbEnsureApplication  = Verb{Name: "EnsureApplication", Kind: kindAdmin, Permission: access.ApplicationRead}
	VerbGetApplication     = Verb{Name: "GetApplication", Kind: kindAdmin, Permission: access.ApplicationRead}
	VerbOwnApplication     = Verb{Name: "OwnApplication", Kind: kindAdmin}
	VerbListApplications   = Verb{Name: "ListApplications", Kind: kindAdmin, Permission: access.ApplicationRead}
	VerbAllApplications    = Verb{Name: "AllApplications", Kind: kindAdmin, Permission: access.ApplicationRead}
	VerbReplaceApplication = Verb{Name: "ReplaceApplication", Kind: kindAdmin, Permission: access.ApplicationUpdate}
	VerbPatchApplication   = Verb{Name: "PatchApplication", Kind: kindAdmin, Permission: access.ApplicationUpdate}
	VerbRegenerateKey      = Verb{Name: "RegenerateKey", Kind: kindAdmin, Permission: access.ApplicationUpdate}
	VerbDeleteApplication  = Verb{Name: "DeleteApplication", Kind: kindAdmin, Permission: access.ApplicationDelete}
	VerbListPermissions    = Verb{Name: "ListPermissions", Kind: kindAdmin}
	VerbExplain            = Verb{Name: "Explain", Kind: kindAdmin, Permission: access.ApplicationRead}

	VerbCreateSession    = Verb{Name: "CreateSession", Kind: kindAdmin}
	VerbAuthorizeSession = Verb{Name: "AuthorizeSession", Kind: kindAdmin}
	VerbListSessions     = Verb{Name: "ListSessions", Kind: kindAdmin, Permission: access.SessionRead}
	VerbAllSessions      = Verb{Name: "AllSessions", Kind: kindAdmin, Permission: access.SessionRead}
	VerbDeleteSession    = Verb{Name: "DeleteSession", Kind: kindAdmin, Permission: access.SessionDelete}

	VerbGetTenant           = Verb{Name: "GetTenant", Kind: kindAdmin, Permission: access.TenantRead, Where: OutsideTx}
	VerbReplaceTenant       = Verb{Name: "ReplaceTenant", Kind: kindAdmin, Permission: access.TenantUpdate, Where: OutsideTx}
	VerbPatchTenant         = Verb{Name: "PatchTenant", Kind: kindAdmin, Permission: access.TenantUpdate, Where: OutsideTx}
	VerbRotateWebhookSecret = Verb{Name: "RotateWebhookSecret", Kind: kindAdmin, Permission: access.TenantUpdate, Where: OutsideTx}
	VerbStats               = Verb{Name: "Stats", Kind: kindAdmin, Only: "ask for its figures", Where: OutsideTx}

	VerbListLogs        = Verb{Name: "ListLogs", Kind: kindAdmin, Permission: access.LogRead}
	VerbAllLogs         = Verb{Name: "AllLogs", Kind: kindAdmin, Permission: access.LogRead}
	VerbNextLogs        = Verb{Name: "NextLogs", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx}
	VerbFollowLogs      = Verb{Name: "FollowLogs", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx}
	VerbLogCheckpoint   = Verb{Name: "LogCheckpoint", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx}
	VerbLogProof        = Verb{Name: "LogProof", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx}
	VerbLogConsistency  = Verb{Name: "LogConsistency", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx}
	VerbExportEvidence  = Verb{Name: "ExportEvidence", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx}
	VerbListEntityTypes = Verb{Name: "ListEntityTypes", Kind: kindAdmin, Permission: access.LogRead}
)

// Verbs that observers do not see, because they only look up an identity or
// are part of other work.
var (
	VerbAs            = Verb{Name: "As", Only: "act as one of its applications"}
	VerbHasPermission = Verb{Name: "HasPermission", Keyless: true}
	VerbOnce          = Verb{Name: "Once", Where: OutsideTx}
	VerbFindProxy     = Verb{Name: "FindProxy"}
)
