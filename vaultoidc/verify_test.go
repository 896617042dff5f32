package vaultoidc

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// all returns an issuer with a key of each type.
func all(t testing.TB) *provider {
	t.Helper()
	return newProvider(t, public("rsa", rsaKey()), public("p256", p256()), public("p384", p384()), public("p521", p521()), public("ed", edKey()),
		jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "svid", Use: "jwt-svid"},
		jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "plain"},
		jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "enc", Use: "enc"},
		jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "only-ps256", Use: "sig", Algorithm: "PS256"},
		jose.JSONWebKey{Key: rsaKey(), KeyID: "private", Use: "sig"},
		jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "oct", Use: "sig"},
		public("small", smallRSA()))
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	p := all(t)
	v := verifier(t, p)
	for algorithm, key := range map[jose.SignatureAlgorithm]jose.JSONWebKey{
		jose.RS256: {Key: rsaKey(), KeyID: "rsa"}, jose.RS384: {Key: rsaKey(), KeyID: "rsa"}, jose.RS512: {Key: rsaKey(), KeyID: "rsa"},
		jose.PS256: {Key: rsaKey(), KeyID: "rsa"}, jose.PS384: {Key: rsaKey(), KeyID: "rsa"}, jose.PS512: {Key: rsaKey(), KeyID: "rsa"},
		jose.ES256: {Key: p256(), KeyID: "p256"}, jose.ES384: {Key: p384(), KeyID: "p384"}, jose.ES512: {Key: p521(), KeyID: "p521"},
		jose.EdDSA: {Key: edKey(), KeyID: "ed"},
	} {
		claims := must.Get(v.Verify(t.Context(), signed(t, algorithm, key.Key, map[string]any{"kid": key.KeyID}, p.claims(nil))))(t)
		must.Same(t, string(algorithm), any("repo:acme/shop"), claims["sub"])
	}
	stranger := &jose.JSONWebKey{Key: otherRSA().Public(), KeyID: "rsa"}
	for name, jwt := range map[string]string{
		"use jwt-svid":              p.sign(t, "svid", rsaKey(), nil),
		"no use":                    p.sign(t, "plain", rsaKey(), nil),
		"the key's algorithm":       signed(t, jose.PS256, rsaKey(), map[string]any{"kid": "only-ps256"}, p.claims(nil)),
		"an embedded key":           signed(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa", "jwk": stranger}, p.claims(nil)),
		"jku and x5u":               signed(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa", "jku": "https://evil.example/keys", "x5u": "https://evil.example/x"}, p.claims(nil)),
		"x5c":                       signed(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa", "x5c": []string{base64.StdEncoding.EncodeToString(p.certificate)}}, p.claims(nil)),
		"members that are not read": signed(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa", "jwk": 5, "jku": 5, "x5c": []string{"AAAA"}, "x5u": 5, "x5t": 5}, p.claims(nil)),
		"an embedded secret":        signed(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa", "jwk": map[string]string{"kty": "oct", "k": "AAAA"}}, p.claims(nil)),
		"aud as a list":             p.sign(t, "rsa", rsaKey(), map[string]any{"aud": []string{"a", "vault"}}),
		"24 hours":                  p.sign(t, "rsa", rsaKey(), map[string]any{"exp": start.Add(24 * time.Hour).Unix()}),
		"a slow clock":              p.sign(t, "rsa", rsaKey(), map[string]any{"iat": start.Add(-time.Hour).Unix(), "exp": start.Add(-59 * time.Second).Unix()}),
		"a fast clock":              p.sign(t, "rsa", rsaKey(), map[string]any{"iat": start.Add(59 * time.Second).Unix(), "nbf": start.Add(59 * time.Second).Unix()}),
		"parts of a second":         p.sign(t, "rsa", rsaKey(), map[string]any{"iat": float64(start.Unix()) + 0.5}),
	} {
		_, err := v.Verify(t.Context(), jwt)
		must.Match(t, name, err, nil)
	}
	claims := must.Get(v.Verify(t.Context(), p.sign(t, "rsa", rsaKey(), map[string]any{"run": json.Number("1.0")})))(t)
	must.Same(t, "the text of a number", any(json.Number("1.0")), claims["run"])
}

// forgery is a JWT that is refused.
type forgery struct {
	jwt  string
	want error
}

// forgeries returns a JWT for each way to make one without the right.
func forgeries(t *testing.T, p *provider) map[string]forgery {
	t.Helper()
	good := p.sign(t, "rsa", rsaKey(), nil)
	start := p.clock.time()
	parts := strings.Split(good, ".")
	payload := string(must.Get(base64.RawURLEncoding.DecodeString(parts[1]))(t))
	encode := base64.RawURLEncoding.EncodeToString
	der := must.Get(x509.MarshalPKIXPublicKey(rsaKey().Public()))(t)
	confused := func(secret []byte) string { // a public key as the secret of HS256
		text := encode([]byte(`{"alg":"HS256","kid":"rsa"}`)) + "." + parts[1]
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(text))
		return text + "." + encode(mac.Sum(nil))
	}
	own := func(header string) string { // signed with RS256, whatever the header says
		text := encode([]byte(header)) + "." + parts[1]
		sum := sha256.Sum256([]byte(text))
		return text + "." + encode(must.Get(rsa.SignPKCS1v15(rand.Reader, rsaKey(), crypto.SHA256, sum[:]))(t))
	}
	changed := func(changes map[string]any) string { return p.sign(t, "rsa", rsaKey(), changes) }
	encrypted := must.Get(jose.NewEncrypter(jose.A128GCM, jose.Recipient{Algorithm: jose.RSA_OAEP_256, Key: rsaKey().Public(), KeyID: "rsa"}, nil))(t)
	two := must.Get(jose.NewMultiSigner([]jose.SigningKey{{Algorithm: jose.RS256, Key: rsaKey()}, {Algorithm: jose.RS256, Key: otherRSA()}}, nil))(t)

	return map[string]forgery{
		"nothing":                 {"", errForm},
		"none":                    {encode([]byte(`{"alg":"none","kid":"rsa"}`)) + "." + parts[1] + ".", errForm},
		"none with a signature":   {encode([]byte(`{"alg":"none","kid":"rsa"}`)) + "." + parts[1] + "." + parts[2], errAlgorithm},
		"None":                    {own(`{"alg":"None","kid":"rsa"}`), errAlgorithm},
		"no alg":                  {own(`{"kid":"rsa"}`), errAlgorithm},
		"alg is a list":           {own(`{"alg":["RS256"],"kid":"rsa"}`), errAlgorithm},
		"HS256 of the key's DER":  {confused(der), errAlgorithm},
		"HS256 of the key's PEM":  {confused(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), errAlgorithm},
		"HS256 of a shared key":   {signed(t, jose.HS256, []byte("0123456789abcdef0123456789abcdef"), map[string]any{"kid": "oct"}, p.claims(nil)), errKey},
		"RS256 of an EC key":      {signed(t, jose.RS256, rsaKey(), map[string]any{"kid": "p256"}, p.claims(nil)), errAlgorithm},
		"ES256 of another curve":  {signed(t, jose.ES256, p256(), map[string]any{"kid": "p384"}, p.claims(nil)), errAlgorithm},
		"not the key's alg":       {signed(t, jose.RS256, rsaKey(), map[string]any{"kid": "only-ps256"}, p.claims(nil)), errAlgorithm},
		"RS256 as PS256":          {own(`{"alg":"PS256","kid":"rsa"}`), errSignature},
		"another key":             {p.sign(t, "rsa", otherRSA(), nil), errSignature},
		"another EC key":          {signed(t, jose.ES256, newEC(elliptic.P256()), map[string]any{"kid": "p256"}, p.claims(nil)), errSignature},
		"another EdDSA key":       {signed(t, jose.EdDSA, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)), map[string]any{"kid": "ed"}, p.claims(nil)), errSignature},
		"an EC signature in DER":  {asDER(t, signed(t, jose.ES256, p256(), map[string]any{"kid": "p256"}, p.claims(nil))), errSignature},
		"a long EC signature":     {signed(t, jose.ES256, p256(), map[string]any{"kid": "p256"}, p.claims(nil)) + "AAAA", errSignature},
		"RS256 as RS384":          {own(`{"alg":"RS384","kid":"rsa"}`), errSignature},
		"another key, embedded":   {signed(t, jose.RS256, otherRSA(), map[string]any{"kid": "rsa", "jwk": &jose.JSONWebKey{Key: otherRSA().Public(), KeyID: "rsa"}}, p.claims(nil)), errSignature},
		"an encryption key":       {p.sign(t, "enc", rsaKey(), nil), errKey},
		"a private key":           {p.sign(t, "private", rsaKey(), nil), errKey},
		"an RSA key of 1,024":     {p.sign(t, "small", smallRSA(), nil), errKey},
		"no kid":                  {signed(t, jose.RS256, rsaKey(), nil, p.claims(nil)), errNoKey},
		"an empty kid":            {own(`{"alg":"RS256","kid":""}`), errNoKey},
		"a kid that is a number":  {own(`{"alg":"RS256","kid":7}`), errNoKey},
		"a kid that is a path":    {p.sign(t, "../../../../etc/passwd", rsaKey(), nil), errKey},
		"a kid that is a URL":     {p.sign(t, "https://evil.example/keys", rsaKey(), nil), errKey},
		"a kid in capitals":       {p.sign(t, "RSA", rsaKey(), nil), errKey},
		"a long kid":              {p.sign(t, strings.Repeat("k", 501), rsaKey(), nil), errNoKey},
		"crit":                    {own(`{"alg":"RS256","kid":"rsa","crit":["exp"],"exp":1}`), errCritical},
		"crit and b64":            {own(`{"alg":"RS256","kid":"rsa","crit":["b64"],"b64":false}`), errCritical},
		"an empty crit":           {own(`{"alg":"RS256","kid":"rsa","crit":[]}`), errCritical},
		"alg twice":               {own(`{"alg":"none","kid":"rsa","alg":"RS256"}`), errJSON},
		"kid twice, escaped":      {own(`{"alg":"RS256","kid":"p256","\u006bid":"rsa"}`), errJSON},
		"a deep member twice":     {own(`{"alg":"RS256","kid":"rsa","x":[{"a":1,"a":2}]}`), errJSON},
		"a header that is a list": {own(`["RS256"]`), errJSON},
		"two values in a header":  {own(`{"alg":"RS256","kid":"rsa"}{}`), errJSON},
		"a claim twice":           {signedText(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa"}, `{"sub":"admin",`+payload[1:]), errJSON},
		"a deep claim twice":      {signedText(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa"}, `{"k":{"uid":1,"uid":2},`+payload[1:]), errJSON},
		"invalid UTF-8":           {signedText(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa"}, "{\"k\":\"\xff\","+payload[1:]), errJSON},
		"deep claims":             {signedText(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa"}, `{"k":`+strings.Repeat("[", 30)+strings.Repeat("]", 30)+","+payload[1:]), errJSON},
		"a text after the claims": {signedText(t, jose.RS256, rsaKey(), map[string]any{"kid": "rsa"}, payload+"x"), errJSON},
		"a changed payload":       {parts[0] + "." + encode([]byte(strings.Replace(payload, "shop", "evil", 1))) + "." + parts[2], errSignature},
		"a changed signature":     {parts[0] + "." + parts[1] + "." + flip(parts[2]), errSignature},
		"no signature":            {parts[0] + "." + parts[1] + ".", errForm},
		"two parts":               {parts[0] + "." + parts[1], errForm},
		"four parts":              {good + ".x", errForm},
		"padding":                 {good + "=", errForm},
		"a line break":            {parts[0] + "." + parts[1] + ".\n" + parts[2], errForm},
		"a space":                 {" " + good, errForm},
		"JSON with a signature":   {must.Get(two.Sign([]byte(payload)))(t).FullSerialize(), errForm},
		"encrypted":               {must.Get(must.Get(encrypted.Encrypt([]byte(payload)))(t).CompactSerialize())(t), errForm},
		"more than 8 KiB":         {changed(map[string]any{"x": strings.Repeat("x", 8<<10)}), errLong},

		"another issuer":          {changed(map[string]any{"iss": "https://evil.example"}), errIssuer},
		"a slash at the end":      {changed(map[string]any{"iss": p.url + "/"}), errIssuer},
		"an issuer in capitals":   {changed(map[string]any{"iss": strings.ToUpper(p.url)}), errIssuer},
		"issuers in a list":       {changed(map[string]any{"iss": []string{p.url}}), errIssuer},
		"no issuer":               {changed(map[string]any{"iss": nil}), errIssuer},
		"no exp":                  {changed(map[string]any{"exp": nil}), errTimes},
		"no iat":                  {changed(map[string]any{"iat": nil}), errTimes},
		"exp is a string":         {changed(map[string]any{"exp": fmt.Sprint(start.Add(time.Hour).Unix())}), errTimes},
		"exp is huge":             {changed(map[string]any{"exp": json.Number("1e300")}), errTimes},
		"exp is not a float":      {changed(map[string]any{"exp": json.Number("1e400")}), errTimes},
		"exp is negative":         {changed(map[string]any{"exp": -1}), errTimes},
		"nbf is a string":         {changed(map[string]any{"nbf": "0"}), errTimes},
		"more than 24 hours":      {changed(map[string]any{"exp": start.Add(24*time.Hour + time.Second).Unix()}), errTimes},
		"exp before iat":          {changed(map[string]any{"iat": start.Add(time.Hour).Unix(), "exp": start.Add(time.Minute).Unix()}), errTimes},
		"expired":                 {changed(map[string]any{"iat": start.Add(-time.Hour).Unix(), "exp": start.Add(-time.Minute).Unix()}), errExpired},
		"issued in the future":    {changed(map[string]any{"iat": start.Add(61 * time.Second).Unix()}), errEarly},
		"not before a later time": {changed(map[string]any{"nbf": start.Add(61 * time.Second).Unix()}), errEarly},
	}
}

func TestForgeries(t *testing.T) {
	t.Parallel()
	p := all(t)
	v := verifier(t, p)
	must.Match(t, "the JWT that the others are made of", must.Err(v.Verify(t.Context(), p.sign(t, "rsa", rsaKey(), nil))), nil)
	for name, c := range forgeries(t, p) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claims, err := v.Verify(t.Context(), c.jwt)
			must.Match(t, "error", err, c.want)
			if claims != nil || errors.Is(err, vault.ErrUnavailable) {
				t.Errorf("%v, %v", claims, err)
			}
		})
	}
}

// asDER returns a JWT whose ECDSA signature has the form that certificates have.
func asDER(t *testing.T, jwt string) string {
	t.Helper()
	at := strings.LastIndex(jwt, ".") + 1
	raw := must.Get(base64.RawURLEncoding.DecodeString(jwt[at:]))(t)
	half := len(raw) / 2
	der := must.Get(asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(raw[:half]), new(big.Int).SetBytes(raw[half:])}))(t)
	return jwt[:at] + base64.RawURLEncoding.EncodeToString(der)
}

// flip changes the first character of a text.
func flip(text string) string {
	if text[0] == 'A' {
		return "B" + text[1:]
	}
	return "A" + text[1:]
}

// A set of keys may hold keys that are not for signatures of JWTs, or are broken. The
// others count.
func TestReadKeys(t *testing.T) {
	t.Parallel()
	good := must.Get(json.Marshal(public("good", rsaKey())))(t)
	text := bytes.Join([][]byte{[]byte(`{"keys":[{"kty":"new"},{"kty":"RSA","kid":"broken"},7,null,{"kty":"OKP","crv":"X25519","kid":"x","x":"AAAA"}`), good}, []byte(","))
	set := must.Get(readKeys(append(text, "]}"...)))(t)
	if len(set) != 1 || len(set["good"]) != 1 {
		t.Errorf("keys: %v", set)
	}
	for _, wrong := range []string{``, `{}`, `[]`, `{"keys":null}`, `{"keys":{}}`, `<html>`} {
		must.Match(t, wrong, must.Err(readKeys([]byte(wrong))), must.Text("not a set of keys"))
	}
	many := bytes.Repeat(append(good, ','), 100)
	set = must.Get(readKeys(append(append([]byte(`{"keys":[`), many[:len(many)-1]...), "]}"...)))(t)
	must.Same(t, "keys with one name", maxPerKID, len(set["good"]))
}
