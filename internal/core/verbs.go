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
	VerbEraseTokens       = Verb{Name: "EraseTokens", Kind: kindDelete, Permission: access.TokenDelete, Where: OutsideOnce, Large: true, OwnerFront: true}
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

	VerbOwnApplication       = Verb{Name: "OwnApplication", Kind: kindAdmin}
	VerbRegenerateKey        = Verb{Name: "RegenerateKey", Kind: kindAdmin, Permission: access.ApplicationUpdate}
	VerbCreateApplicationKey = Verb{Name: "CreateApplicationKey", Kind: kindAdmin, Permission: access.ApplicationUpdate}
	VerbListApplicationKeys  = Verb{Name: "ListApplicationKeys", Kind: kindAdmin, Permission: access.ApplicationRead}
	VerbGetApplicationKey    = Verb{Name: "GetApplicationKey", Kind: kindAdmin, Permission: access.ApplicationRead}
	VerbDeleteApplicationKey = Verb{Name: "DeleteApplicationKey", Kind: kindAdmin, Permission: access.ApplicationUpdate}
	VerbListPermissions      = Verb{Name: "ListPermissions", Kind: kindAdmin}
	VerbNow                  = Verb{Name: "Now", Kind: kindAdmin}
	VerbExplain              = Verb{Name: "Explain", Kind: kindAdmin, Permission: access.ApplicationRead}

	VerbCreateSession    = Verb{Name: "CreateSession", Kind: kindAdmin, Permission: access.SessionCreate}
	VerbAuthorizeSession = Verb{Name: "AuthorizeSession", Kind: kindAdmin, Permission: access.SessionAuthorize}
	VerbListSessions     = Verb{Name: "ListSessions", Kind: kindAdmin, Permission: access.SessionRead}
	VerbAllSessions      = Verb{Name: "AllSessions", Kind: kindAdmin, Permission: access.SessionRead}
	VerbDeleteSession    = Verb{Name: "DeleteSession", Kind: kindAdmin, Permission: access.SessionDelete}

	VerbGetTenant           = Verb{Name: "GetTenant", Kind: kindAdmin, Permission: access.TenantRead, Where: OutsideTx, Front: true}
	VerbReplaceTenant       = Verb{Name: "ReplaceTenant", Kind: kindAdmin, Permission: access.TenantUpdate, Where: OutsideTx}
	VerbPatchTenant         = Verb{Name: "PatchTenant", Kind: kindAdmin, Permission: access.TenantUpdate, Where: OutsideTx}
	VerbRotateWebhookSecret = Verb{Name: "RotateWebhookSecret", Kind: kindAdmin, Permission: access.TenantUpdate, Where: OutsideTx}
	VerbStats               = Verb{Name: "Stats", Kind: kindAdmin, Only: "ask for its figures", Where: OutsideTx, Front: true}

	VerbListLogs        = Verb{Name: "ListLogs", Kind: kindAdmin, Permission: access.LogRead, Front: true}
	VerbAllLogs         = Verb{Name: "AllLogs", Kind: kindAdmin, Permission: access.LogRead, Front: true}
	VerbNextLogs        = Verb{Name: "NextLogs", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx, Front: true}
	VerbFollowLogs      = Verb{Name: "FollowLogs", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx, Front: true}
	VerbLogCheckpoint   = Verb{Name: "LogCheckpoint", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx, Front: true}
	VerbLogProof        = Verb{Name: "LogProof", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx, Front: true}
	VerbLogConsistency  = Verb{Name: "LogConsistency", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx, Front: true}
	VerbExportEvidence  = Verb{Name: "ExportEvidence", Kind: kindAdmin, Permission: access.LogRead, Where: OutsideTx, Front: true}
	VerbListEntityTypes = Verb{Name: "ListEntityTypes", Kind: kindAdmin, Permission: access.LogRead, Front: true}
)

// The verbs of applications, reactors and proxies.
var (
	ApplicationVerbs = entityVerbs("Application", "Applications",
		access.ApplicationCreate, access.ApplicationRead, access.ApplicationUpdate, access.ApplicationDelete)
	ReactorVerbs = entityVerbs("Reactor", "Reactors", access.ReactorCreate, access.ReactorRead, access.ReactorUpdate, access.ReactorDelete)
	ProxyVerbs   = entityVerbs("Proxy", "Proxies", access.ProxyCreate, access.ProxyRead, access.ProxyUpdate, access.ProxyDelete)
)

// EntityVerbs are the verbs of one kind of entity.
type EntityVerbs struct {
	Create, Ensure, Apply, Get, List, All, Replace, Patch, Delete Verb
}

func entityVerbs(one, many, create, read, update, del string) EntityVerbs {
	admin := func(name, permission string) Verb { return Verb{Name: name, Kind: kindAdmin, Permission: permission} }
	return EntityVerbs{
		Create: admin("Create"+one, create), Ensure: admin("Ensure"+one, read), Apply: admin("Apply"+one, read),
		Get: admin("Get"+one, read), List: admin("List"+many, read), All: admin("All"+many, read),
		Replace: admin("Replace"+one, update), Patch: admin("Patch"+one, update), Delete: admin("Delete"+one, del),
	}
}

// Verbs that observers do not see, because they only look up an identity or
// are part of other work.
var (
	VerbAs            = Verb{Name: "As", Only: "act as one of its applications"}
	VerbHasPermission = Verb{Name: "HasPermission", Keyless: true}
	VerbOnce          = Verb{Name: "Once", Where: OutsideTx}
	VerbFindProxy     = Verb{Name: "FindProxy"}
)
