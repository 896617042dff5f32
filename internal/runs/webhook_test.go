package runs

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestSignVerifies checks with the reference library that each secret
// verifies a callback, and that another secret or a changed body does not.
func TestSignVerifies(t *testing.T) {
	t.Parallel()
	old, current, other := NewWebhookSecret(), NewWebhookSecret(), NewWebhookSecret()
	body := []byte(`{"result":{"ok":true}}`)
	header := must.Get(SignWebhook([]string{current, old}, "msg_1", time.Now(), body))(t)
	for secret, valid := range map[string]bool{old: true, current: true, other: false} {
		receiver := must.Get(standardwebhooks.NewWebhook(secret))(t)
		if err := receiver.Verify(body, header); (err == nil) != valid {
			t.Errorf("verified: %v, want %v (%v)", err == nil, valid, err)
		}
		if receiver.Verify(append(body, ' '), header) == nil {
			t.Error("a changed body verifies")
		}
		changed := header.Clone()
		changed.Set("webhook-id", "msg_2")
		if receiver.Verify(body, changed) == nil {
			t.Error("a changed id verifies")
		}
	}
}

// TestSignVector is the example of the standard's test suites.
func TestSignVector(t *testing.T) {
	t.Parallel()
	header := must.Get(SignWebhook([]string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, "msg_p5jXN8AQM9LWM0D4loKWxJek",
		time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)))(t)
	want := map[string][]string{
		"Webhook-Id":        {"msg_p5jXN8AQM9LWM0D4loKWxJek"},
		"Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
	}
	must.Same(t, "headers", want, map[string][]string(header))
}

func TestSignRefusesBadSecrets(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{
		"empty":      "",
		"no prefix":  "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		"not base64": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa!!",
		"too short":  "whsec_MfKQ9r8G",
	} {
		if header, err := SignWebhook([]string{NewWebhookSecret(), secret}, "msg_1", time.Now(), nil); !errors.Is(err, ErrWebhookSecret) || header != nil {
			t.Errorf("%s: Sign = %v, %v, want ErrSecret", name, header, err)
		}
	}
}

func TestNewSecretIsNew(t *testing.T) {
	t.Parallel()
	if first := NewWebhookSecret(); first == NewWebhookSecret() {
		t.Error("two secrets are the same")
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	want := []string{"5s", "12s", "30s", "1m0s", "3m0s", "7m0s", "15m0s", "40m0s", "1h30m0s"}
	var got []string
	for tries := 1; ; tries++ {
		middle, again := WebhookDelay(tries, 0.5)
		if !again {
			break
		}
		got = append(got, middle.String())
		least, _ := WebhookDelay(tries, 0)
		most, _ := WebhookDelay(tries, 1)
		if least != middle*9/10 || most != middle*11/10 {
			t.Errorf("try %d: from %v to %v, want within 10 %% of %v", tries, least, most, middle)
		}
		if below, _ := WebhookDelay(tries, -7); below != least {
			t.Errorf("try %d: a jitter below 0 gives %v, want %v", tries, below, least)
		}
		if above, _ := WebhookDelay(tries, 7); above != most {
			t.Errorf("try %d: a jitter above 1 gives %v, want %v", tries, above, most)
		}
	}
	must.Same(t, "delays", want, got)
	must.Same(t, fmt.Sprintf("delays for %d tries", MaxWebhookTries), MaxWebhookTries-1, len(got))
	for _, tries := range []int{-1, 0, MaxWebhookTries, MaxWebhookTries + 1} {
		if d, again := WebhookDelay(tries, 0.5); d != 0 || again {
			t.Errorf("Delay(%d) = %v, %v, want no further try", tries, d, again)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	at, body := time.Unix(1_800_000_000, 0), []byte(`{"raw":1}`)
	secret, other := NewWebhookSecret(), NewWebhookSecret()
	signed := func(secrets ...string) http.Header {
		return must.Get(SignWebhook(secrets, "job-1", at, body))(t)
	}
	for name, c := range map[string]struct {
		secret string
		change func(http.Header)
		body   string
		later  time.Duration
		want   error
	}{
		"good":                {},
		"old secret":          {change: func(h http.Header) { h.Set("webhook-signature", signed(other, secret).Get("webhook-signature")) }},
		"other versions":      {change: func(h http.Header) { h.Set("webhook-signature", "v1a,xx v2,yy "+h.Get("webhook-signature")) }},
		"late, but in time":   {later: WebhookTolerance},
		"early, but in time":  {later: -WebhookTolerance},
		"late":                {later: WebhookTolerance + time.Second, want: ErrTimestamp},
		"early":               {later: -WebhookTolerance - time.Second, want: ErrTimestamp},
		"other body":          {body: `{"raw":2}`, want: ErrSignature},
		"other secret":        {secret: other, want: ErrSignature},
		"other id":            {change: func(h http.Header) { h.Set("webhook-id", "job-2") }, want: ErrSignature},
		"other time":          {change: func(h http.Header) { h.Set("webhook-timestamp", "1800000001") }, want: ErrSignature},
		"time with a sign":    {change: func(h http.Header) { h.Set("webhook-timestamp", "+1800000000") }, want: ErrTimestamp},
		"no time":             {change: func(h http.Header) { h.Set("webhook-timestamp", "now") }, want: ErrTimestamp},
		"far time":            {change: func(h http.Header) { h.Set("webhook-timestamp", "9223372036854775807") }, want: ErrTimestamp},
		"no header":           {change: func(h http.Header) { h.Del("webhook-id") }, want: ErrHeaders},
		"two signatures":      {change: func(h http.Header) { h.Add("webhook-signature", "v1,x") }, want: ErrHeaders},
		"signature cut":       {change: func(h http.Header) { h.Set("webhook-signature", h.Get("webhook-signature")[:20]) }, want: ErrSignature},
		"version is not read": {change: func(h http.Header) { h.Set("webhook-signature", "v2"+h.Get("webhook-signature")[2:]) }, want: ErrSignature},
		"not a secret":        {secret: "whsec_x", want: ErrWebhookSecret},
	} {
		header := signed(secret)
		if c.change != nil {
			c.change(header)
		}
		sent := body
		if c.body != "" {
			sent = []byte(c.body)
		}
		if c.secret == "" {
			c.secret = secret
		}
		if err := VerifyWebhook(c.secret, header, sent, at.Add(c.later)); !errors.Is(err, c.want) || err != nil && strings.Contains(err.Error(), "raw") {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	must.Match(t, "no secret", VerifyWebhook("", signed(secret), body, at), ErrWebhookSecret)
}
