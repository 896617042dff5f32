package vault

import (
	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/core"
)

// How an [Observer] names the verbs.
const (
	callCreate = "create"
	callRead   = "read"
	callUpdate = "update"
	callDelete = "delete"
	callReact  = "react"
	callProxy  = "proxy"
	callMove   = "move"  // import and export
	callAdmin  = "admin" // everything that is not about tokens
)

// The verbs of [Client]: what each of them needs, and where it can work.
var (
	verbCreateToken       = core.Verb{Name: "CreateToken", Kind: callCreate, Permission: access.TokenCreate, Large: true}
	verbTokenize          = core.Verb{Name: "Tokenize", Kind: callCreate, Permission: access.TokenCreate, Large: true}
	verbGetToken          = core.Verb{Name: "GetToken", Kind: callRead, Permission: access.TokenRead}
	verbListTokens        = core.Verb{Name: "ListTokens", Kind: callRead, Permission: access.TokenRead, Large: true}
	verbListTokensAfter   = core.Verb{Name: "ListTokensAfter", Kind: callRead, Permission: access.TokenRead, Large: true}
	verbAllTokens         = core.Verb{Name: "AllTokens", Kind: callRead, Permission: access.TokenRead, Large: true}
	verbSearchTokens      = core.Verb{Name: "SearchTokens", Kind: callRead, Permission: access.TokenSearch, Large: true}
	verbSearchTokensAfter = core.Verb{Name: "SearchTokensAfter", Kind: callRead, Permission: access.TokenSearch, Large: true}
	verbSearchAllTokens   = core.Verb{Name: "SearchAllTokens", Kind: callRead, Permission: access.TokenSearch, Large: true}
	verbDetokenize        = core.Verb{Name: "Detokenize", Kind: callRead, Permission: access.TokenUse, Large: true}
	verbPatchToken        = core.Verb{Name: "PatchToken", Kind: callUpdate, Permission: access.TokenUpdate, Large: true}
	verbDeleteToken       = core.Verb{Name: "DeleteToken", Kind: callDelete, Permission: access.TokenDelete}
	verbEraseTokens       = core.Verb{Name: "EraseTokens", Kind: callDelete, Permission: access.TokenDelete, Where: core.Alone, Large: true}
	verbImport            = core.Verb{Name: "Import", Kind: callMove, Permission: access.TokenCreate, Where: core.Alone}
	verbExport            = core.Verb{Name: "Export", Kind: callMove, Permission: access.TokenUse, Where: core.Alone}

	verbReact        = core.Verb{Name: "React", Kind: callReact, Permission: access.TokenUse, Where: core.OutsideTx, Large: true}
	verbReactAsync   = core.Verb{Name: "ReactAsync", Kind: callReact, Permission: access.TokenUse, Where: core.OutsideTx, Large: true}
	verbTestRun      = core.Verb{Name: "TestRun", Kind: callReact, Only: "test code", Where: core.OutsideTx}
	verbInvokeProxy  = core.Verb{Name: "InvokeProxy", Kind: callProxy, Where: core.OutsideTx, Large: true}
	verbRoundTripper = core.Verb{Name: "RoundTripper", Kind: callProxy, Where: core.OutsideTx}
	verbListJobs     = core.Verb{Name: "ListJobs", Kind: callAdmin, Only: "administer its jobs", Where: core.OutsideTx}
	verbRetryJob     = core.Verb{Name: "RetryJob", Kind: callAdmin, Only: "administer its jobs", Where: core.OutsideTx}
	verbDiscardJob   = core.Verb{Name: "DiscardJob", Kind: callAdmin, Only: "administer its jobs", Where: core.OutsideTx}

	verbCreateReactor  = core.Verb{Name: "CreateReactor", Kind: callAdmin, Permission: access.ReactorCreate}
	verbEnsureReactor  = core.Verb{Name: "EnsureReactor", Kind: callAdmin, Permission: access.ReactorRead}
	verbGetReactor     = core.Verb{Name: "GetReactor", Kind: callAdmin, Permission: access.ReactorRead}
	verbListReactors   = core.Verb{Name: "ListReactors", Kind: callAdmin, Permission: access.ReactorRead}
	verbAllReactors    = core.Verb{Name: "AllReactors", Kind: callAdmin, Permission: access.ReactorRead}
	verbReplaceReactor = core.Verb{Name: "ReplaceReactor", Kind: callAdmin, Permission: access.ReactorUpdate}
	verbPatchReactor   = core.Verb{Name: "PatchReactor", Kind: callAdmin, Permission: access.ReactorUpdate}
	verbDeleteReactor  = core.Verb{Name: "DeleteReactor", Kind: callAdmin, Permission: access.ReactorDelete}

	verbCreateProxy  = core.Verb{Name: "CreateProxy", Kind: callAdmin, Permission: access.ProxyCreate}
	verbEnsureProxy  = core.Verb{Name: "EnsureProxy", Kind: callAdmin, Permission: access.ProxyRead}
	verbGetProxy     = core.Verb{Name: "GetProxy", Kind: callAdmin, Permission: access.ProxyRead}
	verbListProxies  = core.Verb{Name: "ListProxies", Kind: callAdmin, Permission: access.ProxyRead}
	verbAllProxies   = core.Verb{Name: "AllProxies", Kind: callAdmin, Permission: access.ProxyRead}
	verbReplaceProxy = core.Verb{Name: "ReplaceProxy", Kind: callAdmin, Permission: access.ProxyUpdate}
	verbPatchProxy   = core.Verb{Name: "PatchProxy", Kind: callAdmin, Permission: access.ProxyUpdate}
	verbDeleteProxy  = core.Verb{Name: "DeleteProxy", Kind: callAdmin, Permission: access.ProxyDelete}

	verbCreateApplication  = core.Verb{Name: "CreateApplication", Kind: callAdmin, Permission: access.ApplicationCreate}
	verbEnsureApplication  = core.Verb{Name: "EnsureApplication", Kind: callAdmin, Permission: access.ApplicationRead}
	verbGetApplication     = core.Verb{Name: "GetApplication", Kind: callAdmin, Permission: access.ApplicationRead}
	verbOwnApplication     = core.Verb{Name: "OwnApplication", Kind: callAdmin}
	verbListApplications   = core.Verb{Name: "ListApplications", Kind: callAdmin, Permission: access.ApplicationRead}
	verbAllApplications    = core.Verb{Name: "AllApplications", Kind: callAdmin, Permission: access.ApplicationRead}
	verbReplaceApplication = core.Verb{Name: "ReplaceApplication", Kind: callAdmin, Permission: access.ApplicationUpdate}
	verbPatchApplication   = core.Verb{Name: "PatchApplication", Kind: callAdmin, Permission: access.ApplicationUpdate}
	verbRegenerateKey      = core.Verb{Name: "RegenerateKey", Kind: callAdmin, Permission: access.ApplicationUpdate}
	verbDeleteApplication  = core.Verb{Name: "DeleteApplication", Kind: callAdmin, Permission: access.ApplicationDelete}
	verbListPermissions    = core.Verb{Name: "ListPermissions", Kind: callAdmin}
	verbExplain            = core.Verb{Name: "Explain", Kind: callAdmin, Permission: access.ApplicationRead}

	verbCreateSession    = core.Verb{Name: "CreateSession", Kind: callAdmin}
	verbAuthorizeSession = core.Verb{Name: "AuthorizeSession", Kind: callAdmin}
	verbListSessions     = core.Verb{Name: "ListSessions", Kind: callAdmin, Permission: access.SessionRead}
	verbAllSessions      = core.Verb{Name: "AllSessions", Kind: callAdmin, Permission: access.SessionRead}
	verbDeleteSession    = core.Verb{Name: "DeleteSession", Kind: callAdmin, Permission: access.SessionDelete}

	verbGetTenant           = core.Verb{Name: "GetTenant", Kind: callAdmin, Permission: access.TenantRead, Where: core.OutsideTx}
	verbReplaceTenant       = core.Verb{Name: "ReplaceTenant", Kind: callAdmin, Permission: access.TenantUpdate, Where: core.OutsideTx}
	verbPatchTenant         = core.Verb{Name: "PatchTenant", Kind: callAdmin, Permission: access.TenantUpdate, Where: core.OutsideTx}
	verbRotateWebhookSecret = core.Verb{Name: "RotateWebhookSecret", Kind: callAdmin, Permission: access.TenantUpdate, Where: core.OutsideTx}
	verbStats               = core.Verb{Name: "Stats", Kind: callAdmin, Only: "ask for its figures", Where: core.OutsideTx}

	verbListLogs        = core.Verb{Name: "ListLogs", Kind: callAdmin, Permission: access.LogRead}
	verbAllLogs         = core.Verb{Name: "AllLogs", Kind: callAdmin, Permission: access.LogRead}
	verbNextLogs        = core.Verb{Name: "NextLogs", Kind: callAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	verbFollowLogs      = core.Verb{Name: "FollowLogs", Kind: callAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	verbLogCheckpoint   = core.Verb{Name: "LogCheckpoint", Kind: callAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	verbLogProof        = core.Verb{Name: "LogProof", Kind: callAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	verbLogConsistency  = core.Verb{Name: "LogConsistency", Kind: callAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	verbExportEvidence  = core.Verb{Name: "ExportEvidence", Kind: callAdmin, Permission: access.LogRead, Where: core.OutsideTx}
	verbListEntityTypes = core.Verb{Name: "ListEntityTypes", Kind: callAdmin, Permission: access.LogRead}
)

// Verbs that an [Observer] does not hear of: they ask for an identity, or are a
// part of other work.
var (
	verbAs            = core.Verb{Name: "As", Only: "act as one of its applications"}
	verbHasPermission = core.Verb{Name: "HasPermission"}
	verbOnce          = core.Verb{Name: "Once", Where: core.OutsideTx}
	verbFind          = core.Verb{Name: "FindProxy"}
)
