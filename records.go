package vault

import (
	"encoding/json"

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

// DecodeReplacement reads parameters for one of the Replace methods of [Client]
// from JSON, as their UnmarshalJSON does, but from JSON that an application, a
// reactor, a proxy or a tenant was written as too: the fields that cannot be
// changed are ignored, so that what a Get returned can be changed and put back. A
// proxy's application_id is read as application.id.
func DecodeReplacement(data []byte, params json.Unmarshaler) error {
	form := paramsForm
	if _, ok := params.(*ProxyParams); ok {
		form = proxyForm
	}
	return public(form.Replace(data, params))
}
