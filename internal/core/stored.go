package core

import (
	"slices"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/storage"
)

// Stored is an identity as it is stored with a job: its principal and its manner.
// Its rights at that time become a limit. Its current rights are read when the job
// runs. Scripted is not stored, because the code that created the job has ended by
// then.
type Stored struct {
	Trusted     bool        `json:"trusted,omitempty"` // the tenant itself
	Key         storage.Key `json:"key,omitzero"`      // the hash of its API key
	Application uuid.UUID   `json:"application,omitzero"`
	Workload    string      `json:"workload,omitempty"` // the mark of the identity of a JWT
	Rights
	Creator   uuid.UUID `json:"creator"`
	Actor     uuid.UUID `json:"actor"`
	ActorType string    `json:"actor_type,omitempty"`
	ActorName string    `json:"actor_name,omitempty"`

	Limits []Rights  `json:"limits,omitempty"`
	Masked bool      `json:"masked,omitempty"`
	Proxy  uuid.UUID `json:"proxy,omitzero"`
	Origin string    `json:"origin,omitempty"`
}

// Stored returns the identity in its stored form.
func (id Identity) Stored() Stored {
	s := Stored{
		Trusted: id.who.grant == unlimited, Key: id.who.key, Application: id.ApplicationID(),
		Rights: id.who.rights, Creator: id.Creator(), Proxy: id.Proxy(), Origin: id.Origin(),
	}
	if w := id.who.shown.workload; w != nil {
		s.Workload = w.mark
	}
	s.Actor, s.ActorType, s.ActorName = id.Actor()
	if id.manner != nil {
		s.Masked = id.manner.masked
		for _, l := range id.manner.limits {
			s.Limits = append(s.Limits, l.Rights)
		}
	}
	return s
}

// Identity returns the stored identity. Unless it is the tenant itself, it has no
// rights until an operation has renewed it.
func (s *Stored) Identity(tenant uuid.UUID) (Identity, error) {
	id, limits := Owner(tenant), s.Limits
	if !s.Trusted {
		id.who = &principal{tenant: tenant, grant: new(access.Grant), key: s.Key, app: &Application{ID: s.Application}}
		if s.Workload != "" {
			id.who.shown.workload = &workload{mark: s.Workload, subject: s.ActorName}
		}
		limits = append(slices.Clip(limits), s.Rights)
	}
	m := manner{masked: s.Masked, proxy: s.Proxy}
	for _, rights := range limits {
		grant, err := access.New(rights.Rules, rights.Permissions)
		if err != nil {
			return id, err
		}
		m.limits = append(m.limits, limit{rights, grant})
	}
	if s.ActorType == ActorUser {
		m.user = user{s.Actor, s.ActorName}
	}
	id.manner, id.origin = &m, s.Origin
	return id.renewed(id.who), nil
}
