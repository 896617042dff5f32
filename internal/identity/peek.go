package identity

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/jsonx"
)

// MaxJWT is the maximum length of a JWT.
const MaxJWT = 8 << 10

// maxDepth is the maximum nesting depth of the JSON in a JWT.
const maxDepth = 20

var errNotJWT = errors.New("this is not a JWT")

// Peek returns the issuer that a JWT names. Nothing about the JWT is verified, so the
// issuer only selects who verifies it.
func Peek(jwt string) (issuer string, err error) {
	_, issuer, err = payloadOf(jwt)
	return issuer, err
}

// Unverified returns the claims of a JWT for an explanation. Nothing about the JWT is
// verified.
func Unverified(jwt string) (claims map[string]any, err error) {
	payload, _, err := payloadOf(jwt)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	return claims, d.Decode(&claims)
}

// payloadOf returns the payload of a JWT, which is a JSON object with an issuer.
func payloadOf(jwt string) (payload []byte, issuer string, err error) {
	if len(jwt) > MaxJWT {
		return nil, "", errNotJWT
	}
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return nil, "", errNotJWT
	}
	for _, part := range parts {
		if part == "" || strings.Trim(part, base64url) != "" {
			return nil, "", errNotJWT
		}
	}
	if payload, err = base64.RawURLEncoding.Strict().DecodeString(parts[1]); err != nil {
		return nil, "", errNotJWT
	}
	claims, err := jsonx.Parse(payload, jsonx.Limits{Depth: maxDepth})
	if err != nil {
		return nil, "", errNotJWT
	}
	iss := claims.Get("iss")
	if iss.Kind() != jsonx.String || iss.Text() == "" {
		return nil, "", errNotJWT
	}
	return payload, iss.Text(), nil
}

// base64url are the characters of a part. The decoder would skip line breaks.
const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
