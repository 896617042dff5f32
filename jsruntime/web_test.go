package jsruntime_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/jsruntime"
)

// failure is a helper of the snippets. It returns the name of the error of a
// function or promise.
const failure = `const failure = async (f) => { try { await f(); return 'none'; } catch (err) { return err.name; } };`

// TestWebInterfaces covers interfaces of browsers and later versions of Node,
// according to the standards.
func TestWebInterfaces(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &jsruntime.Options{TenantWorkers: 2})
	for _, tt := range []struct{ name, body, want string }{
		{"looking at a body does not use it", `const r = new Response('abc'); const has = !!r.body; return [has, r.bodyUsed, await r.text(), r.bodyUsed];`, `[true,false,"abc",true]`},
		{"a body is read once", `const r = new Response('a'); await r.text(); return [await failure(() => r.text()), await failure(() => r.json())];`, `["TypeError","TypeError"]`},
		{"getReader", `const reader = new Response('hi').body.getReader(); const one = await reader.read(); return [[...one.value], (await reader.read()).done];`, `[[104,105],true]`},
		{"a reader locks the body", `const r = new Response('a'); r.body.getReader(); return [await failure(() => r.text())];`, `["TypeError"]`},
		{"clone", `const r = new Response('abc', { status: 201 }); const c = r.clone(); return [await r.text(), await c.text(), c.status];`, `["abc","abc",201]`},
		{"redirect and json", `const a = Response.redirect('https://a.example/x', 307); const b = Response.json({ a: 1 }, { status: 202 }); return [a.status, a.headers.get('location'), b.status, b.headers.get('content-type'), await b.json(), await failure(() => Response.redirect('https://a.example', 200))];`,
			`[307,"https://a.example/x",202,"application/json",{"a":1},"RangeError"]`},
		{"null body status", `return [await failure(() => new Response('x', { status: 204 })), new Response(null, { status: 204 }).body];`, `["TypeError",null]`},
		{"form data there and back", `const f = new FormData(); f.append('a', '1'); f.append('b', new File(['x\ny'], 'f.txt', { type: 'text/csv' })); const back = await new Response(f).formData(); const b = back.get('b'); return [back.get('a'), b.name, b.type, await b.text(), b instanceof File];`,
			`["1","f.txt","text/csv","x\ny",true]`},
		{"urlencoded form data", `const r = new Response(new URLSearchParams({ a: 'b c' })); return [(await r.formData()).get('a')];`, `["b c"]`},
		{"request checks", `return [await failure(() => new Request('https://a.example', { body: 'x' })), await failure(() => new Request('https://a.example', { method: 'TRACE' })), await failure(() => new Request('https://u:p@a.example')), new Request('https://a.example', { method: 'post' }).method];`,
			`["TypeError","TypeError","TypeError","POST"]`},
		{"headers", `const h = new Headers([['B', '2'], ['a', '1'], ['b', '3']]); h.append('set-cookie', 'x'); h.append('set-cookie', 'y'); return [[...h], h.getSetCookie(), await failure(() => h.set('a b', 'c')), await failure(() => h.append('a', '\u0100'))];`,
			`[[["a","1"],["b","2, 3"],["set-cookie","x"],["set-cookie","y"]],["x","y"],"TypeError","TypeError"]`},
		{"blob stream and slice", `const b = new Blob(['abc', new Uint8Array([100])], { type: 'Text/Plain' }); const chunks = []; for await (const c of b.stream()) chunks.push(...c); return [chunks, await b.slice(1, 3).text(), b.type, b.size];`, `[[97,98,99,100],"bc","text/plain",4]`},
		{"AbortSignal.any", `const a = new AbortController(); const s = AbortSignal.any([a.signal, new AbortController().signal]); let seen = 0; s.onabort = () => seen++; a.abort('why'); return [s.aborted, s.reason, seen];`, `[true,"why",1]`},
		{"CustomEvent", `const t = new EventTarget(); let got; t.addEventListener('a', (e) => { got = e.detail; }); t.dispatchEvent(new CustomEvent('a', { detail: { x: 1 } })); return [got];`, `[{"x":1}]`},
		{"URL.parse and canParse", `return [URL.parse('/x', 'https://a.example').href, URL.parse('nope'), URL.canParse('https://a'), URL.canParse('a')];`, `["https://a.example/x",null,true,false]`},
		{"URL keeps characters beyond the basic plane", `return [new URL('https://a.example/😀').pathname, new URLSearchParams('q=😀').toString(), new URLSearchParams({ a: '\ud800' }).toString()];`, `["/%F0%9F%98%80","q=%F0%9F%98%80","a=%EF%BF%BD"]`},
		{"byte streams fill a view", `const rs = new ReadableStream({ type: 'bytes', start(c) { c.enqueue(new Uint8Array([1, 2, 3])); c.close(); } }); const reader = rs.getReader({ mode: 'byob' }); const one = await reader.read(new Uint8Array(2)); const two = await reader.read(new Uint8Array(2)); return [[...one.value], [...two.value]];`, `[[1,2],[3]]`},
		{"compression streams", `const text = await new Response(new Blob(['abcabc']).stream().pipeThrough(new CompressionStream('gzip')).pipeThrough(new DecompressionStream('gzip'))).text(); return [text];`, `["abcabc"]`},
		{"pipeTo fails with its source", `const rs = new ReadableStream({ start(c) { c.error(new RangeError('x')); } }); return [await failure(() => rs.pipeTo(new WritableStream()))];`, `["RangeError"]`},
		{"labels of encodings", `const name = (label) => { try { return new TextDecoder(label).encoding } catch (err) { return err.name } }; return ['\t\n\f\r UTF8 ', '\vutf-8', 'utf-8\u00a0', '\u2028utf-8', 'utf-8\0', 'latin1', 'iso-2022-kr', 'hz-gb-2312', 'replacement', 'x-user-defined'].map(name);`,
			`["utf-8","RangeError","RangeError","RangeError","RangeError","windows-1252","RangeError","RangeError","RangeError","x-user-defined"]`},
		{"bytes that a single-byte encoding leaves out", `const out = {}; for (const label of ['windows-1252', 'iso-8859-2', 'iso-8859-8-i', 'windows-1253', 'windows-874', 'koi8-u']) out[label] = [0x80, 0x81, 0x9f, 0xd2, 0xff].map((b) => new TextDecoder(label).decode(Uint8Array.of(b)).codePointAt(0).toString(16)).join(); return out;`,
			`{"windows-1252":"20ac,81,178,d2,ff","iso-8859-2":"80,81,9f,147,2d9","iso-8859-8-i":"80,81,9f,fffd,fffd","windows-1253":"20ac,81,9f,fffd,fffd","windows-874":"20ac,81,9f,e32,fffd","koi8-u":"2500,2502,f7,440,42a"}`},
		{"UTF-16 that ends early", `const d = (...bytes) => JSON.stringify(new TextDecoder('utf-16le').decode(Uint8Array.from(bytes))); return [d(0), d(0x3d, 0xd8), d(0x3d, 0xd8, 0x00), d(0x3d, 0xd8, 0x61, 0), d(0x61, 0, 0)];`, `["\"�\"","\"�\"","\"�\"","\"�a\"","\"a�\""]`},
		{"DOMException", `const e = new DOMException('m', 'DataCloneError'); return [e.code, e.name, e instanceof Error, DOMException.ABORT_ERR];`, `[25,"DataCloneError",true,20]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := runBody(r, "t", failure+tt.body, patience)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", explain(err), diff)
			}
		})
	}
}

// TestWebCryptoChecks covers what Web Crypto rejects, and with which error.
func TestWebCryptoChecks(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, &jsruntime.Options{TenantWorkers: 2})
	const keys = failure + `const { subtle } = crypto;
const raw = (n) => new Uint8Array(n);
const aes = await subtle.importKey('raw', raw(16), 'AES-GCM', true, ['encrypt']);
const hmac = await subtle.importKey('raw', raw(32), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
`
	for _, tt := range []struct{ name, body, want string }{
		{"a key of another algorithm", `return [await failure(() => subtle.encrypt({ name: 'AES-CBC', iv: raw(16) }, aes, raw(1)))];`, `["InvalidAccessError"]`},
		{"a usage that the key has not", `return [await failure(() => subtle.decrypt({ name: 'AES-GCM', iv: raw(12) }, aes, raw(32))), await failure(() => subtle.verify('HMAC', hmac, raw(32), raw(1)))];`, `["InvalidAccessError","InvalidAccessError"]`},
		{"lengths", `return [await failure(() => subtle.importKey('raw', raw(5), 'AES-CBC', true, ['encrypt'])), await failure(() => subtle.generateKey({ name: 'AES-CBC', length: 100 }, true, ['encrypt'])), await failure(() => subtle.encrypt({ name: 'AES-GCM', iv: raw(12), tagLength: 5 }, aes, raw(1)))];`, `["DataError","OperationError","OperationError"]`},
		{"usages", `return [await failure(() => subtle.importKey('raw', raw(16), 'AES-GCM', true, ['sign'])), await failure(() => subtle.importKey('raw', raw(16), 'AES-GCM', true, [])), await failure(() => subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['encrypt'])), await failure(() => subtle.importKey('raw', raw(16), 'AES-GCM', true, ['fly']))];`, `["SyntaxError","SyntaxError","SyntaxError","TypeError"]`},
		{"algorithms", `return [await failure(() => subtle.digest('MD5', raw(1))), await failure(() => subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-1' }, true, ['sign'])), await failure(() => subtle.importKey('raw', raw(1), { name: 'HMAC' }, true, ['sign']))];`, `["NotSupportedError","NotSupportedError","TypeError"]`},
		{"what may not be exported", `return [await failure(() => subtle.exportKey('raw', hmac)), await failure(() => subtle.exportKey('spki', aes)), (await subtle.exportKey('jwk', aes)).alg];`, `["InvalidAccessError","NotSupportedError","A128GCM"]`},
		{"JWK that does not fit", `return [await failure(() => subtle.importKey('jwk', { kty: 'oct', k: 'AAAA', alg: 'HS512' }, { name: 'HMAC', hash: 'SHA-256' }, true, ['sign'])), await failure(() => subtle.importKey('jwk', { kty: 'RSA' }, { name: 'HMAC', hash: 'SHA-256' }, true, ['sign']))];`, `["DataError","DataError"]`},
		{"key wrap of RFC 3394", `const hex = (b) => Buffer.from(b).toString('hex'); const kek = await subtle.importKey('raw', Buffer.from('000102030405060708090a0b0c0d0e0f', 'hex'), 'AES-KW', true, ['wrapKey', 'unwrapKey']); const key = await subtle.importKey('raw', Buffer.from('00112233445566778899aabbccddeeff', 'hex'), 'AES-CBC', true, ['encrypt']); const wrapped = await subtle.wrapKey('raw', key, kek, 'AES-KW'); const back = await subtle.unwrapKey('raw', wrapped, kek, 'AES-KW', 'AES-CBC', true, ['encrypt']); return [hex(wrapped), hex(await subtle.exportKey('raw', back))];`,
			`["1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5","00112233445566778899aabbccddeeff"]`},
		{"classes cannot be made by code", `return [await failure(() => new CryptoKey()), await failure(() => new SubtleCrypto()), aes instanceof CryptoKey, String(crypto)];`, `["TypeError","TypeError",true,"[object Crypto]"]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := runBody(r, "t", keys+tt.body, patience)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got)\n%s", explain(err), diff)
			}
		})
	}
}
