package vault

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-72ea4aab/vault/internal/webhook"
)

// ErrWebhook means that a request is not a callback of a vault, or an old one.
var ErrWebhook = errors.New("vault: the webhook cannot be trusted")

// VerifyWebhook is for the receivers of callbacks: it returns nil when a request
// with this header and body was signed with the tenant's webhook secret within
// the last 5 minutes, and else an error that matches [ErrWebhook]. The body must
// be the bytes as they arrived.
//
// While a secret is being rotated callbacks carry two signatures, and either of
// the two secrets does. A callback may arrive more than once: its webhook-id, which
// is the ID of the [Job], stays the same.
func VerifyWebhook(secret string, header http.Header, body []byte) error {
	if err := webhook.Verify(secret, header, body, time.Now()); err != nil {
		return fmt.Errorf("%w: %w", ErrWebhook, err)
	}
	return nil
}
