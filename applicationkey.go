package vault

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/form"
)

// ApplicationKey is one of the API keys of an application. Printed or logged it hides
// the key: see the package comment.
type ApplicationKey struct {
	ID uuid.UUID `json:"id"`
	// Key is the API key. It is set only in the result of the call that made it.
	Key       string    `json:"key,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy uuid.UUID `json:"created_by,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// LastUsedAt is when the key was last used, to within an hour. It is a hint: the
	// last hour before a crash may be missing, and anyone with write access to the
	// database can put back an older time.
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
}

// ApplicationKeyParams describes a new key. A zero ExpiresAt means that the key does
// not end.
type ApplicationKeyParams struct {
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// UnmarshalJSON is strict, as [TokenParams.UnmarshalJSON] is.
func (p *ApplicationKeyParams) UnmarshalJSON(data []byte) error {
	return readObject(data, func(r *form.Reader) { p.ExpiresAt = r.Moment("expires_at") })
}

func applicationKeyOf(k *applications.Key) *ApplicationKey {
	return &ApplicationKey{ID: k.ID, Key: k.Text, CreatedAt: k.CreatedAt, CreatedBy: k.CreatedBy, ExpiresAt: k.ExpiresAt, LastUsedAt: k.UsedAt}
}

// CreateApplicationKey adds an API key to an application, whose other keys still work.
// It needs the rights of [Client.RegenerateKey]. An application has at most 3 keys
// that have not expired; the next is ErrConflict. A key that a client makes for
// its own application ends no later than the key of the client.
//
// To replace a key without an interruption, create a key, move the programs to it,
// wait until LastUsedAt of the old key stays the same, and delete the old key. After a
// theft use [Client.RegenerateKey].
func (c *Client) CreateApplicationKey(ctx context.Context, application uuid.UUID, p ApplicationKeyParams) (*ApplicationKey, error) {
	return runTo(ctx, c, &core.VerbCreateApplicationKey, applicationKeyOf, func(ctx context.Context, op *core.Op) (*applications.Key, error) {
		return applications.CreateKey(ctx, op, application, p.ExpiresAt)
	})
}

// ListApplicationKeys returns the keys of an application that have not expired,
// oldest first, without their texts (permission application:read).
func (c *Client) ListApplicationKeys(ctx context.Context, application uuid.UUID) ([]ApplicationKey, error) {
	return run(ctx, c, &core.VerbListApplicationKeys, func(ctx context.Context, op *core.Op) ([]ApplicationKey, error) {
		keys, err := applications.ListKeys(ctx, op, application)
		if err != nil {
			return nil, err
		}
		out := make([]ApplicationKey, len(keys))
		for i := range keys {
			out[i] = *applicationKeyOf(&keys[i])
		}
		return out, nil
	})
}

// GetApplicationKey returns a key of an application, without its text (permission
// application:read).
func (c *Client) GetApplicationKey(ctx context.Context, application, key uuid.UUID) (*ApplicationKey, error) {
	return runTo(ctx, c, &core.VerbGetApplicationKey, applicationKeyOf, func(ctx context.Context, op *core.Op) (*applications.Key, error) {
		return applications.GetKey(ctx, op, application, key)
	})
}

// DeleteApplicationKey deletes a key of an application. It needs the rights of
// [Client.RegenerateKey]. The key stops working at once on this node, and within a
// second on every other. So do the sessions that it created or authorized and the jobs
// that it queued. The other keys go on.
func (c *Client) DeleteApplicationKey(ctx context.Context, application, key uuid.UUID) error {
	return runErr(ctx, c, &core.VerbDeleteApplicationKey, func(ctx context.Context, op *core.Op) error {
		return applications.DeleteKey(ctx, op, application, key)
	})
}
