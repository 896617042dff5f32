package identity

import (
	"encoding/base64"
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
	if len(jwt) > MaxJWT {
		return "", errNotJWT
	}
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return "", errNotJWT
	}
	for _, part := range parts {
		if part == "" || strings.Trim(part, base64url) != "" {
			return "", errNotJWT
		}
	}
	payload, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil {
		return "", errNotJWT
	}
	claims, err := jsonx.Parse(payload, jsonx.Limits{Depth: maxDepth})
	if err != nil {
		return "", errNotJWT
	}
	iss := claims.Get("iss")
	if iss.Kind() != jsonx.String || iss.Text() == "" {
		return "", errNotJWT
	}
	return iss.Text(), nil
}

// base64url are the characters of a part. The decoder would skip line breaks.
const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
