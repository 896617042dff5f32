// Package expr is the {{ ... }} language of masks, fingerprints, search
// indexes, token ids and detokenization: Liquid output expressions with typed
// results.
//
// # Templates
//
// A template is text with expressions in double braces. A template that is
// exactly one expression yields the JSON value itself, so "{{ data.month }}"
// stays a number. With text around the expression, the result is a string:
// strings are inserted unchanged, null and missing values as nothing, and
// everything else as stringify writes it. Inserted text is never evaluated
// again. There are no tags, loops or assignments; "}}" and "{%" outside of an
// expression are text.
//
//	template   = { text | "{{" expression "}}" }
//	expression = operand { "|" filter }
//	filter     = name [ ":" argument { "," argument } ]
//	argument   = [ name ( ":" | "=" ) ] operand
//	operand    = literal | path
//	literal    = 'text' | "text" | number | true | false | nil | null
//	path       = ( "data" | "metadata" ) { "." name | "[" integer | 'text' "]" }
//
// [Compile] is for expressions over a token that is being written. A path that
// leads nowhere yields null, and a negative index counts from the end. Text in
// quotes has no escapes and ends at the next quote of its kind.
//
// [CompileTokens] is for detokenization. The operand before the first filter is
// a token's id: all of the text up to the first "|" or "}}". With "token:"
// before the id, it is the whole token instead of its data. Arguments are
// literals.
//
//	{{ 3f2a... | last4 }}
//	{{ token: 3f2a... | json: '$.metadata.color' }}
//
// # Filters
//
// Arguments in brackets are optional and show their default. They may be passed
// by position or by name (reveal_last: 4, char: '*'). Characters are Unicode
// code points. Filters on text also take numbers (by their text) and booleans;
// an array or object is an error.
//
// Hiding. These fail closed: if a value is not longer than the part to reveal,
// all of it is hidden. Null stays null.
//
//	reveal_last: length, [char='X']         all but the last characters replaced
//	reveal: first, [last=0], [char='X'], [keep='']
//	                                        characters in keep stay as well
//	card_mask: [reveal_bin=false], [reveal_last4=false], [char='X'], [keep='']
//	card_bin: [separator='']                6 digits, or 8 of 16 and more, the
//	                                        separator after every fourth
//
// Aliases: random, and never equal to the input.
//
//	alias_card: [reveal_bin=false], [reveal_last4=false]
//	                                        random digits, all else kept
//	alias_preserve_format: [first=0], [last=0]
//	                                        a digit for a digit, a letter for a
//	                                        letter of the same case, all else kept
//	alias_preserve_length: [first=0], [last=0]
//	                                        random letters and digits
//
// Types.
//
//	json: path          the one value that a JSONPath (RFC 9535) finds
//	stringify           a string as it is, anything else as compact JSON with
//	                    stored key order and number text
//	to_string           the same, except that null becomes ""
//	to_number           text that is a decimal number, true as 1, false as 0
//	to_boolean          'true', 'false', '1', '0', 1 and 0
//
// Text: last4 (the last four characters, or all of a shorter value; for search
// indexes, whereas reveal_last is for masks), append, prepend, upcase,
// downcase, capitalize, strip, lstrip, rstrip, strip_newlines, remove,
// remove_first, replace, replace_first, slice, truncate, split, escape,
// url_encode, url_decode, base64_encode, base64_decode, pad_left: length,
// [char=' '], pad_right: length, [char=' '].
//
// Numbers: plus, minus, times, divided_by, modulo, round: [places=0], floor,
// ceil, abs. Arithmetic is exact, on numbers of up to 1,000 digits. Integers
// give integers (divided_by rounds down). If a number has a point, the result
// has one too, and a quotient is rounded to 20 places.
//
// Arrays: join: [glue=' '], first, last, size, reverse, sort: [property], uniq:
// [property], compact: [property], map: property, concat: array.
//
// Also default: value, [allow_false=false], and date: format, which takes
// 'now', 'today', seconds since 1970 and common date forms, and formats by
// strftime.
//
// These follow Liquid, except that a filter that does not fit its input is an
// error. So a mask never shows by accident what it should hide.
//
// # Limits
//
// A write-time template has at most 10,000 characters. An expression has at
// most 10,000 bytes and 32 filters. A template or tree has at most 10,000
// expressions of about 1 MiB in total. Text that a filter produces has at most
// 1 MiB, unless it is not longer than its input. The values inserted into a
// tree have at most 16 MiB in total. If they come from the token's own data,
// they have at most 1 MiB more than the data.
//
// Work is counted in steps of about 50 ns, which the expressions of one request
// take from one budget. It ends soon after the caller has gone. Every error
// except the context's is an [*Error], which names filters and rules and never
// contains a value.
package expr
