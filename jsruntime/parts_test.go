package jsruntime_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

// TestCryptoBehavesAsOneObject uses the exports of crypto in ways that could show that
// most members are loaded later. The results are Node's.
func TestCryptoBehavesAsOneObject(t *testing.T) {
	t.Parallel()
	r := jsruntime.NewInProcess(nil)
	for body, want := range map[string]string{
		"return Object.keys({ ...c }).length === Object.keys(c).length && Object.keys(c).every((k) => c[k] !== undefined)":                                                  `true`,
		"c.randomBytes = () => 7; delete c.randomInt; return [c.randomBytes(), typeof c.randomInt, 'randomInt' in c, typeof c.randomUUID]":                                  `[7,"undefined",false,"function"]`,
		"Object.freeze(c); c.sign = 1; return [Object.isFrozen(c), typeof c.sign, typeof Object.getOwnPropertyDescriptor(c, 'verify').value]":                               `[true,"function","function"]`,
		"Object.defineProperty(c, 'randomUUID', { value: 5, writable: false }); c.randomUUID = 6; return c.randomUUID":                                                      `5`,
		"const { value, ...flags } = Object.getOwnPropertyDescriptor(c, 'createCipheriv'); return [typeof value, flags]":                                                    `["function",{"writable":true,"enumerable":true,"configurable":true}]`,
		"const d = Object.getOwnPropertyDescriptor(c, 'webcrypto'); return [typeof d.get, d.enumerable]":                                                                    `["function",true]`,
		"class K {} new Proxy(K, {}); Object.freeze(c); return [Object.keys(c).length > 50, Object.isFrozen(c), typeof Object.getOwnPropertyDescriptor(c, 'verify').value]": `[true,true,"function"]`,
		"with (c) { return [createHmac('md5', 'k').update('x').digest('hex'), typeof randomBytes] }":                                                                        `["442ba079e8ec6206f7f5534d4653db0f","function"]`,
		"return c.createHmac('sha1', c.createSecretKey(Buffer.from('k'))).update('x').digest('hex') === c.createHmac('sha1', 'k').update('x').digest('hex')":                `true`,
		"return [c.createSecretKey(Buffer.from('k')) instanceof c.KeyObject, c.createHmac('md5', 'k') instanceof c.Hmac, new c.Hash('md5') instanceof c.Hash]":              `[true,true,true]`,
		"try { c.createHash(5) } catch (err) { return err.code }":                                                                                                           `"ERR_INVALID_ARG_TYPE"`,
		"try { c.createHmac('md5', {}) } catch (err) { return err.code }":                                                                                                   `"ERR_INVALID_ARG_TYPE"`,
		"return require('node:crypto') === c && c === require('crypto') && c.Hash === require('crypto').Hash":                                                               `true`,
	} {
		got, err := runBody(r, "t", "const c = require('crypto'); "+body, patience)
		if err != nil {
			t.Errorf("%s: %s", body, explain(err))
			continue
		}
		must.Same(t, body, want, got)
	}
}
