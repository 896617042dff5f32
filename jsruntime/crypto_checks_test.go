package jsruntime_test

import (
	"testing"
)

// keysForChecks creates keys of every kind, and helpers to alter signatures.
const keysForChecks = `const c = require('crypto');
const rsa = c.generateKeyPairSync('rsa', { modulusLength: 2048 });
const outcome = (f) => { try { return f(); } catch (err) { return err.code || err.name; } };
const data = Buffer.from('message');
const flip = (b, i) => { const out = Buffer.from(b); out[i] ^= 1; return out; };
const subtle = c.webcrypto.subtle;
const refused = async (f) => { try { await f(); return 'accepted'; } catch (err) { return err.name; } };
`

// TestCryptoChecks alters keys and signatures as the tests of other libraries
// do. Altered ones are rejected.
func TestCryptoChecks(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, nil)
	for name, tt := range map[string]struct{ body, want string }{
		"PSS without a salt": {`
const pss = (saltLength) => ({ key: rsa.privateKey, padding: c.constants.RSA_PKCS1_PSS_PADDING, saltLength });
const check = (sig, saltLength) => c.verify('sha256', data, { key: rsa.publicKey, padding: c.constants.RSA_PKCS1_PSS_PADDING, saltLength }, sig);
const none = c.sign('sha256', data, pss(0)), some = c.sign('sha256', data, pss(32)), most = c.sign('sha256', data, pss(c.constants.RSA_PSS_SALTLEN_MAX_SIGN));
return [none.equals(c.sign('sha256', data, pss(0))), check(none, 0), check(none, 32), check(some, 0), check(most, 0), check(some, 32), check(none, c.constants.RSA_PSS_SALTLEN_AUTO), check(most), check(flip(none, 5), 0), check(none.subarray(1), 0)];`,
			`[true,true,false,false,false,true,true,true,false,false]`},
		"PSS without a salt in Web Crypto": {`
const { publicKey, privateKey } = await subtle.generateKey({ name: 'RSA-PSS', modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]), hash: 'SHA-256' }, true, ['sign', 'verify']);
const sign = (saltLength) => subtle.sign({ name: 'RSA-PSS', saltLength }, privateKey, data);
const check = (sig, saltLength) => subtle.verify({ name: 'RSA-PSS', saltLength }, publicKey, sig, data);
const none = await sign(0), some = await sign(20);
return [Buffer.from(none).equals(Buffer.from(await sign(0))), await check(none, 0), await check(some, 0), await check(none, 20), await check(some, 20)];`,
			`[true,true,false,false,true]`},
		"lengths of ECDSA signatures": {`
const out = [];
for (const [namedCurve, size] of [['P-256', 64], ['P-384', 96], ['P-521', 132]]) {
  const { publicKey, privateKey } = c.generateKeyPairSync('ec', { namedCurve });
  const key = { key: publicKey, dsaEncoding: 'ieee-p1363' };
  let accepted = 0;
  for (let i = 0; i < 20; i++) {
    const sig = c.sign('sha256', data, { key: privateKey, dsaEncoding: 'ieee-p1363' });
    if (sig.length !== size || !c.verify('sha256', data, key, sig)) out.push('bad');
    const half = size / 2, zero = Buffer.alloc(1);
    for (const altered of [Buffer.concat([zero, sig]), Buffer.concat([sig, zero]), Buffer.concat([zero, sig.subarray(0, half), zero, sig.subarray(half)]), sig.subarray(1), sig.subarray(0, size - 1), Buffer.concat([sig.subarray(1, half), sig.subarray(half + 1)]), Buffer.alloc(0), Buffer.alloc(size), flip(sig, 3), flip(sig, half + 3)]) {
      if (c.verify('sha256', data, key, altered)) accepted++;
    }
  }
  out.push(accepted);
}
return out;`, `[0,0,0]`},
		"DER signatures": {`
const { publicKey, privateKey } = c.generateKeyPairSync('ec', { namedCurve: 'P-256' });
const sig = c.sign('sha256', data, privateKey);
const altered = [Buffer.concat([sig, Buffer.alloc(1)]), sig.subarray(0, -1), Buffer.concat([Buffer.from([0x30, 0x81]), sig.subarray(1)]), Buffer.alloc(0), Buffer.from('3006020100020100', 'hex'), Buffer.from('3006020101020101', 'hex')];
return [c.verify('sha256', data, publicKey, sig), altered.map((s) => c.verify('sha256', data, publicKey, s)).filter(Boolean).length];`, `[true,0]`},
		"JWKs of elliptic curves": {`
const out = [];
for (const namedCurve of ['P-256', 'P-384', 'P-521']) {
  const { privateKey } = c.generateKeyPairSync('ec', { namedCurve });
  const { privateKey: other } = c.generateKeyPairSync('ec', { namedCurve });
  const jwk = privateKey.export({ format: 'jwk' }), others = other.export({ format: 'jwk' });
  const bytes = (s) => Buffer.from(s, 'base64url');
  const longer = (s) => Buffer.concat([Buffer.alloc(1), bytes(s)]).toString('base64url');
  const shorter = (s) => bytes(s).subarray(1).toString('base64url');
  const { d, ...pub } = jwk;
  const load = (key) => outcome(() => (c.createPublicKey({ key, format: 'jwk' }), 'accepted'));
  const secret = (key) => outcome(() => (c.createPrivateKey({ key, format: 'jwk' }), 'accepted'));
  out.push([load(pub), secret(jwk)].join(), [load({ ...pub, x: longer(pub.x) }), load({ ...pub, y: shorter(pub.y) }), load({ ...pub, x: undefined }), load({ ...pub, y: undefined }), load({ ...pub, y: others.y }), secret({ ...jwk, d: shorter(d) }), secret({ ...jwk, d: longer(d) }), secret({ ...jwk, d: others.d }), secret({ ...jwk, x: undefined }), secret({ ...jwk, y: undefined })].filter((o) => o === 'accepted').length);
}
return out;`, `["accepted,accepted",0,"accepted,accepted",0,"accepted,accepted",0]`},
		"JWKs of Edwards and Montgomery curves": {`
const out = [];
for (const kind of ['ed25519', 'x25519']) {
  const jwk = c.generateKeyPairSync(kind).privateKey.export({ format: 'jwk' });
  const other = c.generateKeyPairSync(kind).privateKey.export({ format: 'jwk' });
  const secret = (key) => outcome(() => (c.createPrivateKey({ key, format: 'jwk' }), 'accepted'));
  const cut = (s) => Buffer.from(s, 'base64url').subarray(1).toString('base64url');
  out.push(secret(jwk), [{ ...jwk, x: undefined }, { ...jwk, x: other.x }, { ...jwk, d: cut(jwk.d) }, { ...jwk, x: cut(jwk.x) }].map(secret).filter((o) => o === 'accepted').length);
}
return out;`, `["accepted",0,"accepted",0]`},
		"JWKs of RSA": {`
const jwk = rsa.privateKey.export({ format: 'jwk' });
const other = c.generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
const secret = (key) => outcome(() => (c.createPrivateKey({ key, format: 'jwk' }), 'accepted'));
return [secret(jwk), [{ ...jwk, d: other.d }, { ...jwk, p: other.p }, { ...jwk, dp: other.dp }, { ...jwk, qi: other.qi }, { ...jwk, n: other.n }, { ...jwk, n: undefined }, { ...jwk, e: undefined }].map(secret).filter((o) => o === 'accepted').length];`, `["accepted",0]`},
		"JWKs in Web Crypto": {`
const { privateKey } = await subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
const jwk = await subtle.exportKey('jwk', privateKey);
const load = (key) => refused(() => subtle.importKey('jwk', key, { name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign']));
return [await load(jwk), await load({ ...jwk, x: undefined }), await load({ ...jwk, y: jwk.x }), await load({ ...jwk, d: jwk.d.slice(2) })];`, `["accepted","DataError","DataError","DataError"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := runBody(r, "t", keysForChecks+tt.body, patience); err != nil || got != tt.want {
				t.Errorf("got %s, %s, want %s", got, explain(err), tt.want)
			}
		})
	}
}
