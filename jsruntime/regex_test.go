package jsruntime_test

import (
	"testing"

	"github.com/seed-72ea4aab/vault/script"
)

// TestRegexps uses regular expressions that simple engines get wrong.
func TestRegexps(t *testing.T) {
	t.Parallel()
	r := newWorkers(t, nil)
	for body, want := range map[string]string{
		`return ':20:REF\r\n:21:X\r\n'.match(/^:(\d\d[A-Z]?):(.*)$/gm)`:                                                                 `[":20:REF",":21:X"]`,
		`return 'a: 1\r\nb: 2'.split(/\r?\n/).map((l) => /^(\w): (.*)$/m.exec(l)[2])`:                                                   `["1","2"]`,
		`return 'Jane 😀'.replace(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g, '')`:                                                                `"Jane "`,
		`return ['é1'.match(/\b./g), 'aXbX'.replace(/X/y, '-'), /./.test('\u2028')]`:                                                    `[["1"],"aXbX",false]`,
		`const y = /X/y; y.lastIndex = 1; return ['aXbX'.replace(y, '-'), y.lastIndex]`:                                                 `["a-bX",2]`,
		`return 'abc'.replace(/\w*/g, '-')`:                                                                                             `"--"`,
		`return /(?:(a)|b)*/.exec('ab')`:                                                                                                `["ab",null]`,
		`return 'é'.replace(/[a-z-[]/g, '')`:                                                                                            `"é"`,
		`return new (/x/.constructor)('\\p{Lu}', 'u').test('É')`:                                                                        `true`,
		`return eval('/\\p{Lu}/u').test('É')`:                                                                                           `true`,
		`return new Function('return /(?:(a)|b)*/')().exec('ab')`:                                                                       `["ab",null]`,
		`return (() => {}).constructor('return /^b$/m.test("a\\rb")')()`:                                                                `true`,
		`/(b)(c)/.exec('abcd'); return [RegExp.$1, RegExp.$2, RegExp['$&'], RegExp.leftContext, RegExp.rightContext, RegExp.lastParen]`: `["b","c","bc","a","d","c"]`,
		`return [/a/dgimsuy.flags, /[\p{L}--[a-z]]/v.test('a'), /a\/[/]/.source, String(new RegExp('/\n')), new RegExp('').source]`:     `["dgimsuy",false,"a\\/[/]","/\\/\\n/","(?:)"]`,
		`class Mine extends RegExp { exec(s) { const m = super.exec(s); if (m) m[0] = 'x'; return m } } return ['aba'.replace(new Mine('a', 'g'), '[$&]'), new Mine('a') instanceof RegExp]`: `["[x]b[x]",true]`,
		`const re = /a/g; re.exec = () => null; return 'a'.replace(re, 'b')`:                                                                                     `"a"`,
		`return Array.from('a1b22'.matchAll(/(?<n>\d+)/g), (m) => [m.index, m.groups.n])`:                                                                        `[[1,"1"],[3,"22"]]`,
		`return ['2024-05'.replace(/(?<y>\d+)-(?<m>\d+)/, '$<m>/$<y>'), 'ab'.replace(/b/, "$'$` + "`" + `$$$&$1")]`:                                              `["05/2024","aa$b$1"]`,
		`try { new RegExp('(', 'g') } catch (e) { return [e.name, e.message] }`:                                                                                  `["SyntaxError","Invalid regular expression: /(/g: Unterminated group"]`,
		`return ['aBc'.match(/b/i).index, 'x'.match('x')[0], 'a.b'.search('b'), 'ſ'.match(/s/i), 'ſ'.match(/s/iu)[0]]`:                                           `[1,"x",2,null,"ſ"]`,
		`const re = /a/g; re.compile('b', 'i'); return [re.source, re.flags, re.test('B'), re.test('a')]`:                                                        `["b","i",true,false]`,
		`const made = []; for (let i = 0; i < 2000; i++) made.push(new RegExp('a' + i + '$')); return made.every((re, i) => re.test('xa' + i) && !re.test('a'))`: `true`,
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			if got, err := runBody(r, "t", body, patience); err != nil || got != want {
				t.Errorf("got %s, %s, want %s", got, explain(err), want)
			}
		})
	}
}

// TestEndlessRegexpTimesOut uses a pattern that takes exponential time. The run ends at
// its deadline, in a worker and in process.
func TestEndlessRegexpTimesOut(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, r script.Runtime) {
		if out, err := runBody(r, "t", "return 7", patience); err != nil || out != "7" {
			t.Fatalf("got %s, %s", out, explain(err))
		}
		for _, body := range []string{`return /^(a+)+$/.test('a'.repeat(60) + 'b')`, `return 'a'.repeat(60).replace(/(?:(?:a|a)*)*b/g, '')`} {
			_, err := runBody(r, "t", body, loopTime)
			if e := scriptError(t, err); e.Kind != script.Timeout {
				t.Errorf("%s: got %s, want a timeout", body, explain(err))
			}
		}
	})
}
