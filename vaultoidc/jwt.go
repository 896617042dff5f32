package vaultoidc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault"
)

// Limits of a JWT.
const (
	maxJWT   = 8 << 10
	maxDepth = 20
	maxKID   = 500
	maxLife  = 24 * time.Hour
	skew     = time.Minute
)

// token is a JWT that has been read, but not verified.
type token struct {
	algorithm string
	kid       string
	claims    vault.Claims
	signed    []byte // header and payload as they were sent
	signature []byte
}

// alphabet has the characters of base64url. The decoder would skip line breaks.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// parse reads a JWT strictly.
func parse(text string) (*token, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, errForm
	}
	var decoded [3][]byte
	for n, part := range parts {
		var err error
		if decoded[n], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || part == "" || strings.Trim(part, alphabet) != "" {
			return nil, errForm
		}
	}
	header, err := object(decoded[0])
	if err != nil {
		return nil, err
	}
	claims, err := object(decoded[1])
	if err != nil {
		return nil, err
	}
	t := &token{claims: claims, signed: []byte(parts[0] + "." + parts[1]), signature: decoded[2]}
	if _, critical := header["crit"]; critical {
		return nil, errCritical
	}
	t.algorithm, _ = header["alg"].(string)
	if t.kid, _ = header["kid"].(string); t.kid == "" || len(t.kid) > maxKID {
		return nil, errNoKey
	}
	return t, nil
}

// issuer returns the claim iss.
func (t *token) issuer() string {
	iss, _ := t.claims["iss"].(string)
	return iss
}

// object decodes a JSON object. It refuses a member that occurs twice at any level,
// because other readers could see the other one.
func object(text []byte) (map[string]any, error) {
	if !utf8.Valid(text) {
		return nil, errJSON
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return nil, errJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errJSON
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, errJSON
	}
	return o, nil
}

// value decodes the next value.
func value(d *json.Decoder, depth int) (any, error) {
	next, err := d.Token()
	if err != nil || depth > maxDepth {
		return nil, errJSON
	}
	switch next {
	case json.Delim('{'):
		o := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			if _, twice := o[name.(string)]; twice { //nolint:forcetypeassert // the decoder checks it
				return nil, errJSON
			}
			if o[name.(string)], err = value(d, depth+1); err != nil { //nolint:forcetypeassert // the decoder checks it
				return nil, err
			}
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			e, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
		}
		_, err = d.Token()
		return list, err
	default:
		return next, nil
	}
}

// times checks the times of a JWT.
func (t *token) times(now time.Time) error {
	exp, ok := date(t.claims["exp"])
	iat, ok2 := date(t.claims["iat"])
	if !ok || !ok2 || exp.Before(iat) || exp.Sub(iat) > maxLife {
		return errTimes
	}
	nbf := iat
	if claim, given := t.claims["nbf"]; given {
		if nbf, ok = date(claim); !ok {
			return errTimes
		}
	}
	switch {
	case !now.Before(exp.Add(skew)):
		return errExpired
	case iat.After(now.Add(skew)), nbf.After(now.Add(skew)):
		return errEarly
	}
	return nil
}

// date returns the time of a NumericDate.
func date(claim any) (time.Time, bool) {
	number, _ := claim.(json.Number)
	seconds, err := number.Float64()
	if err != nil || seconds < 0 || seconds > 1<<38 {
		return time.Time{}, false
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(part*float64(time.Second))), true
}
