package core

// Handle is the caller of a client of package vault. The client embeds it under an
// unexported name, so that packages of this module can get the caller with
// [CallerOf] and programs cannot.
type Handle struct{ caller Caller }

// NewHandle returns the handle of a caller.
func NewHandle(c Caller) Handle { return Handle{c} }

func (h *Handle) handle() Caller { return h.caller }

// CallerOf returns the caller of a *vault.Client.
func CallerOf(client interface{ handle() Caller }) Caller { return client.handle() }
