package expr_test

import (
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

var textCases = []filterCase{
	{use: "append: '.html'", data: `"/index"`, want: `"/index.html"`},
	{use: "append: 1", data: `2.50`, want: `"2.501"`},
	{use: "append: data", data: `"ab"`, want: `"abab"`},
	{use: "append: metadata.color", data: `"a"`, want: `"ared"`},
	{use: "append: 'x'", data: `null`, want: `"x"`},
	{use: "append: 'x'", data: `[1]`, fails: "needs text, not an array"},
	{use: "append: data", data: `["secret"]`, fails: "the argument text must be text"},
	{use: "append", data: `"a"`, fails: "the argument text is missing"},
	{use: "prepend: 'a'", data: `"b"`, want: `"ab"`},
	{use: `prepend: "it's "`, data: `"b"`, want: `"it's b"`},
	{use: "prepend: 'x'", data: `{}`, fails: "needs text"},
	{use: "prepend", data: `"b"`, fails: "missing"},
	{use: "upcase", data: `"grün é"`, want: `"GRÜN É"`},
	{use: "upcase", data: `true`, want: `"TRUE"`},
	{use: "upcase", data: `null`, want: `""`},
	{use: "upcase", data: `[]`, fails: "needs text"},
	{use: "downcase", data: `"ÄB"`, want: `"äb"`},
	{use: "downcase", data: `{}`, fails: "needs text"},
	{use: "capitalize", data: `"my GREAT title"`, want: `"My great title"`},
	{use: "capitalize", data: `"éa"`, want: `"Éa"`},
	{use: "capitalize", data: `""`, want: `""`},
	{use: "capitalize", data: `[]`, fails: "needs text"},
	{use: "strip", data: `" \t a b \n"`, want: `"a b"`},
	{use: "strip", data: `[]`, fails: "needs text"},
	{use: "lstrip", data: `"  a "`, want: `"a "`},
	{use: "lstrip", data: `[]`, fails: "needs text"},
	{use: "rstrip", data: `" a  "`, want: `" a"`},
	{use: "rstrip", data: `[]`, fails: "needs text"},
	{use: "strip_newlines", data: `"a\nb\r\nc"`, want: `"abc"`},
	{use: "strip_newlines", data: `[]`, fails: "needs text"},
	{use: "remove: '-'", data: `"123-45-6789"`, want: `"123456789"`},
	{use: "remove: ''", data: `"abc"`, want: `"abc"`},
	{use: "remove: 'zz'", data: `"abc"`, want: `"abc"`},
	{use: "remove: '-'", data: `{}`, fails: "needs text"},
	{use: "remove", data: `"a"`, fails: "the argument search is missing"},
	{use: "remove_first: 'a'", data: `"banana"`, want: `"bnana"`},
	{use: "remove_first", data: `"a"`, fails: "missing"},
	{use: "replace: 'a', 'o'", data: `"banana"`, want: `"bonono"`},
	{use: "replace: 'an', ''", data: `"banana"`, want: `"ba"`},
	{use: "replace: 'a'", data: `"banana"`, want: `"bnn"`},
	{use: "replace: '', '.'", data: `"ab"`, want: `".a.b."`},
	{use: "replace: 'a', 'o'", data: `[]`, fails: "needs text"},
	{use: "replace", data: `"a"`, fails: "missing"},
	{use: "replace_first: 'a', 'o'", data: `"banana"`, want: `"bonana"`},
	{use: "replace_first: 'a', 'o', 'u'", data: `"banana"`, fails: "too many arguments"},
	{use: "slice: 0", data: `"Liquid"`, want: `"L"`},
	{use: "slice: 2, 3", data: `"Liquid"`, want: `"qui"`},
	{use: "slice: -3, 2", data: `"Liquid"`, want: `"ui"`},
	{use: "slice: -3, 99", data: `"Liquid"`, want: `"uid"`},
	{use: "slice: 99", data: `"Liquid"`, want: `""`},
	{use: "slice: -99, 2", data: `"Liquid"`, want: `""`},
	{use: "slice: 6", data: `"Liquid"`, want: `""`},
	{use: "slice: 1, 2", data: `"äöü"`, want: `"öü"`},
	{use: "slice: 1, 2", data: `[1, 2.0, "c"]`, want: `[2.0,"c"]`},
	{use: "slice: -1", data: `[1, 2]`, want: `[2]`},
	{use: "slice: 9", data: `[1, 2]`, want: `[]`},
	{use: "slice: 0, 4", data: `123456`, want: `"1234"`},
	{use: "slice: 0", data: `{}`, fails: "needs text or an array, not an object"},
	{use: "slice: 0, -1", data: `"a"`, fails: "the argument length must be an integer from 0"},
	{use: "slice", data: `"a"`, fails: "the argument offset is missing"},
	{use: "split: '@'", data: `"jane@example.com"`, want: `["jane","example.com"]`},
	{use: "split: ','", data: `"a,,b,,"`, want: `["a","","b"]`},
	{use: "split: ' '", data: `"  a  b "`, want: `["a","b"]`},
	{use: "split: ''", data: `"aé😀"`, want: `["a","é","😀"]`},
	{use: "split: ','", data: `""`, want: `[]`},
	{use: "split: ','", data: `null`, want: `[]`},
	{use: "split: '@' | first", data: `"jane@example.com"`, want: `"jane"`},
	{use: "split: ','", data: `["a"]`, fails: "needs text, not an array"},
	{use: "split", data: `"a"`, fails: "the argument separator is missing"},
	{use: "truncate: 20", data: `"Ground control to Major Tom."`, want: `"Ground control to..."`},
	{use: "truncate: 25, ', and so on'", data: `"Ground control to Major Tom."`, want: `"Ground control, and so on"`},
	{use: "truncate: 20, ''", data: `"Ground control to Major Tom."`, want: `"Ground control to Ma"`},
	{use: "truncate: 1", data: `"abc"`, want: `"..."`},
	{use: "truncate: 3", data: `"äöü"`, want: `"äöü"`},
	{use: "truncate", data: `"short"`, want: `"short"`},
	{use: "truncate: 3", data: `[]`, fails: "needs text"},
	{use: "truncate: -3", data: `"a"`, fails: "must be an integer from 0"},
	{use: "pad_left: 5, '0'", data: `42`, want: `"00042"`},
	{use: "pad_left: 3", data: `"a"`, want: `"  a"`},
	{use: "pad_left: 2, '0'", data: `"abc"`, want: `"abc"`},
	{use: "pad_left: 4, '•'", data: `"é"`, want: `"•••é"`},
	{use: "pad_left: 5, '00'", data: `"a"`, fails: "exactly one character"},
	{use: "pad_left: 1048577", data: `"a"`, fails: "must be an integer from 0 to 1048576"},
	{use: "pad_left: 1048576, '•'", data: `"a"`, fails: "would produce more than 1048576 bytes of text"},
	{use: "pad_left", data: `"a"`, fails: "missing"},
	{use: "pad_left: 3", data: `[]`, fails: "needs text"},
	{use: "pad_right: 5, '0'", data: `42`, want: `"42000"`},
	{use: "pad_right: 1", data: `"ab"`, want: `"ab"`},
	{use: "pad_right: 5, ''", data: `"a"`, fails: "exactly one character"},
}

var encodingCases = []filterCase{
	{use: "escape", data: `"<a href='x'>\"&\"</a>"`, want: `"&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt;"`},
	{use: "escape", data: `[]`, fails: "needs text"},
	{use: "url_encode", data: `"john@liquid.com a+b/é~-_.*"`, want: `"john%40liquid.com+a%2Bb%2F%C3%A9~-_.%2A"`},
	{use: "url_encode", data: `{}`, fails: "needs text"},
	{use: "url_decode", data: `"%27Stop%21%27+said+%C3%A9"`, want: `"'Stop!' said é"`},
	{use: "url_decode", data: `"100% %zz %4"`, want: `"100% %zz %4"`},
	{use: "url_decode", data: `"%\u0014\u0011"`, want: `"%\u0014\u0011"`}, // not the digits 4 and 1
	{use: "url_decode", data: `"%ff"`, fails: "not valid UTF-8"},
	{use: "url_decode", data: `{}`, fails: "needs text"},
	{use: "base64_encode", data: `"one two three"`, want: `"b25lIHR3byB0aHJlZQ=="`},
	{use: "base64_encode", data: `[]`, fails: "needs text"},
	{use: "base64_decode", data: `"b25lIHR3byB0aHJlZQ=="`, want: `"one two three"`},
	{use: "base64_decode", data: `""`, want: `""`},
	{use: "base64_decode", data: `"%%%%"`, fails: "needs text in base64"},
	{use: "base64_decode", data: `"/w=="`, fails: "not valid UTF-8"},
	{use: "date: '%Y-%m-%d'", data: `"now"`, want: `"2024-02-29"`},
	{use: "date: '%H:%M:%S'", data: `"today"`, want: `"12:05:09"`},
	{use: "date: '%a, %b %d, %y'", data: `"2024-03-01T10:20:30Z"`, want: `"Fri, Mar 01, 24"`},
	{use: "date: '%Y %z'", data: `"2024-03-01T10:20:30.5+02:00"`, want: `"2024 +0200"`},
	{use: "date: '%s'", data: `1700000000`, want: `"1700000000"`},
	{use: "date: '%Y-%m-%dT%H:%M'", data: `"1700000000"`, want: `"2023-11-14T22:13"`},
	{use: "date: '%m/%Y'", data: `"March 14, 2016"`, want: `"03/2016"`},
	{use: "date: '%j'", data: `"2024-12-31"`, want: `"366"`},
	{use: "date: '%Y'", data: `"not a date"`, fails: "needs a date like"},
	{use: "date: '%Y'", data: `99999999999999`, fails: "needs a date like"},
	{use: "date: '%Y'", data: `null`, fails: "needs a date like"},
	{use: "date: '%Y'", data: `[]`, fails: "needs text"},
	{use: "date", data: `"now"`, fails: "the argument format is missing"},
}

func TestFiltersBoundTheirOutput(t *testing.T) {
	t.Parallel()
	half := `"` + strings.Repeat("a", 700_000) + `"`
	large := `"` + strings.Repeat("a", 2<<20) + `"`
	for _, use := range []string{
		"append: data", "prepend: data", "replace: 'a', 'bb'", "replace: '', 'x'", "slice: 0, 200000 | split: '' | join: '------'", "base64_encode | base64_encode",
	} {
		must.Fail(eval(t, "{{ data | "+use+" }}", half))(t, use, must.Text("would produce more than"))
	}
	// Filters that do not make text longer accept any size.
	for _, use := range []string{"reveal_last: 4", "stringify", "upcase", "last4", "card_mask", "remove: 'b'", "alias_preserve_length", "truncate: 9"} {
		must.Match(t, use, must.Err(eval(t, "{{ data | "+use+" }}", large)), nil)
	}
	must.Fail(eval(t, "{{ data }}{{ data }}", half))(t, "two halves in one text", must.Text("too long"))
	twice := strings.Repeat(" | upcase | downcase", 16)
	must.Fail(eval(t, "{{ data"+twice+" }}", large))(t, "32 passes over 2 MiB", must.Text("too much work"))
}
