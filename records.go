package vault

import (
	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/records"
)

// Kinds of records.
const (
	kindTenant      = keyring.KindTenant
	kindRing        = keyring.KindRing
	kindTombstone   = keyring.KindTombstone
	kindApplication = audit.Application
	kindSession     = audit.Session
	kindReactor     = audit.Reactor
	kindProxy       = audit.Proxy
)

// paramsForm and proxyForm read parameters from JSON that may hold the fields of
// a response too.
var (
	paramsForm = records.Form{Fields: fieldsOf}
	proxyForm  = records.Form{Fields: fieldsOf, ApplicationID: true}
)
