package runs

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix = "whsec_"
	secretLen    = 32 // bytes; the standard requires 24 to 64
)

// MaxWebhookTries is the maximum number of attempts of a callback.
const MaxWebhookTries = len(webhookDelays) + 1

// webhookDelays are the pauses after the first, second, ... failed attempt.
var webhookDelays = [...]time.Duration{
	5 * time.Second, 12 * time.Second, 30 * time.Second,
	time.Minute, 3 * time.Minute, 7 * time.Minute, 15 * time.Minute, 40 * time.Minute, 90 * time.Minute,
}

// ErrWebhookSecret means that NewWebhookSecret could not have returned a secret.
var ErrWebhookSecret = errors.New("webhook: a secret must be " + secretPrefix + " followed by at least 24 bytes in base64")

// NewWebhookSecret returns a new signing secret, in the form that a tenant sees.
func NewWebhookSecret() string {
	key := make([]byte, secretLen)
	rand.Read(key) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// SignWebhook returns the headers that authenticate a callback. They have a
// signature for each secret, so that receivers can verify with an old or a
// new secret during a rotation. The id must stay the same when the callback
// is sent again. It must not contain a dot, which separates the signed parts.
func SignWebhook(secrets []string, id string, at time.Time, body []byte) (http.Header, error) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		encoded, ok := strings.CutPrefix(secret, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < 24 {
			return nil, ErrWebhookSecret
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	header := http.Header{}
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", timestamp)
	header.Set("webhook-signature", strings.Join(signatures, " "))
	return header, nil
}

// WebhookDelay returns how long to wait after a number of failed attempts, and
// whether to try again at all. A jitter from 0 to 1 changes the delay by -10
// % to +10 %, so that callbacks that failed together are not retried
// together. The caller passes a random jitter.
func WebhookDelay(tries int, jitter float64) (time.Duration, bool) {
	if tries < 1 || tries >= MaxWebhookTries {
		return 0, false
	}
	factor := 0.9 + 0.2*min(max(jitter, 0), 1)
	return time.Duration(float64(webhookDelays[tries-1]) * factor), true
}

// WebhookTolerance is the maximum difference between the time of a callback and the
// receiver's clock.
const WebhookTolerance = 5 * time.Minute

// The reasons why a callback is rejected.
var (
	ErrHeaders   = errors.New("webhook-id, webhook-timestamp or webhook-signature is missing, or occurs twice")
	ErrTimestamp = errors.New("webhook-timestamp is not a time within 5 minutes of now")
	ErrSignature = errors.New("no signature in webhook-signature is one of this body under this secret")
)

// VerifyWebhook checks the headers from SignWebhook against the body, at a time of the
// receiver's clock. It compares signatures in constant time, and ignores
// versions other than v1.
func VerifyWebhook(secret string, header http.Header, body []byte, now time.Time) error {
	var given [3]string
	for i, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		values := header.Values(name)
		if len(values) != 1 || values[0] == "" {
			return ErrHeaders
		}
		given[i] = values[0]
	}
	seconds, err := strconv.ParseInt(given[1], 10, 64)
	if err != nil {
		return ErrTimestamp
	}
	at := time.Unix(seconds, 0)
	if now.Sub(at) > WebhookTolerance || at.Sub(now) > WebhookTolerance || strconv.FormatInt(seconds, 10) != given[1] {
		return ErrTimestamp
	}
	signed, err := SignWebhook([]string{secret}, given[0], at, body)
	if err != nil {
		return err
	}
	want := []byte(signed.Get("Webhook-Signature"))
	for signature := range strings.FieldsSeq(given[2]) {
		if hmac.Equal(want, []byte(signature)) {
			return nil
		}
	}
	return ErrSignature
}
