package elements_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// secretNumber is the number that no guess may confirm. Its owner typed it into a frame.
const secretNumber = "4000007651230002"

// candidates returns numbers with the same bin, last4 and check digit, the secret number
// among them.
func candidates(most int) []string {
	var all []string
	for middle := 0; middle < 1_000_000 && len(all) < most; middle++ {
		n := secretNumber[:6] + fmt.Sprintf("%06d", middle) + secretNumber[12:]
		if luhn(n) && n != secretNumber {
			all = append(all, n)
		}
	}
	return append(all, secretNumber)
}

func luhn(number string) bool {
	sum := 0
	for i := range len(number) {
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// changing matches what differs between any two responses: ids, times, fingerprints, and
// names of fields that the request chose.
var changing = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[^"]*|"fingerprint":"[^"]*"`)

// digitsApart matches numbers in the record that are not of a card: addresses, times and keys.
var digitsApart = regexp.MustCompile(`127\.0\.0\.1:\d+|key_[a-z]+_\w+|"?(startTime|duration|fetchStart|\w*(Start|End|Time|Size|Id)): [\d.]+|nonce: \w+`)

// guesses are the requests with which a page can test a candidate. The page has the public
// key with all that a public key may hold, and knows the id of the token. API stands for
// the candidate, ID for the id.
func guesses(card string) []struct{ method, path, body string } {
	type guess = struct{ method, path, body string }
	data := `{"number":"API","expiration_month":12,"expiration_year":2030}`
	var all []guess
	// Every way to create, with and without deduplication, and with ids, masks, indexes
	// and fingerprints that depend on the data.
	for _, more := range []string{
		``, `,"deduplicate_token":true`, `,"deduplicate_token":false`, `,"id":"{{ data.number | slice: 6, 6 }}-card"`, `,"id":"` + card + `"`,
		`,"id":"` + card + `","deduplicate_token":true`, `,"fingerprint_expression":"{{ data.number }}","deduplicate_token":true`,
		`,"fingerprint_expression":"{{ data | stringify }}","deduplicate_token":true`, `,"fingerprint_expression":"elements","deduplicate_token":true`,
		`,"search_indexes":["{{ data.number }}"]`, `,"mask":"{{ data.number | reveal_last: 4 }}"`,
	} {
		request := `{"type":"card","data":` + data + more + `}`
		all = append(all, guess{"POST", "/tokens", request}, guess{"POST", "/tokenize", request}, guess{"POST", "/tokenize", `[` + request + `]`},
			guess{"POST", "/tokens/import", request})
		for _, mode := range []string{"fail", "skip", "update"} {
			all = append(all, guess{"POST", "/tokens/import?on_duplicate=" + mode, request}, guess{"POST", "/tokens/import?resumed=true&on_duplicate=" + mode, request})
		}
	}
	// Every patch of the token. A patch can destroy it, but it must say nothing.
	for _, body := range []string{
		`{"deduplicate_token":true}`, `{"metadata":{"a":"b"},"deduplicate_token":true}`, `{"data":{"number":"API"},"deduplicate_token":true}`, `{"data":{"number":"API"}}`,
		`{"data":` + data + `}`, `{"data":{"number":"API"},"mask":"{{ data.number }}"}`, `{"data":{"number":"API"},"fingerprint_expression":"{{ data.number }}"}`,
		`{"fingerprint_expression":null}`, `{"fingerprint_expression":null,"deduplicate_token":true}`, `{"mask":"{{ data.number }}"}`, `{"search_indexes":["{{ data.number }}"]}`,
	} {
		all = append(all, guess{"PATCH", "/tokens/" + card, body})
	}
	// What a public key may not do must not depend on the candidate either.
	return append(all, guess{"POST", "/tokens/search", `{"query":"data:API"}`}, guess{"POST", "/detokenize", `"{{ ` + card + ` }}"`}, guess{"GET", "/tokens?id=" + card, ""},
		guess{"GET", "/tokens/" + card, ""}, guess{"DELETE", "/tokens/" + card, ""}, guess{"POST", "/tokens/erase", `{"ids":["` + card + `"]}`})
}

// observe returns what a page sees of a response, without what always differs.
func observe(r *reply) string {
	return strconv.Itoa(r.status) + " " + changing.ReplaceAllString(r.text, "")
}

// TestNothingConfirmsAGuess makes each guess about the secret number and about another
// number, in two worlds that are otherwise equal, and compares what the page sees.
func TestNothingConfirmsAGuess(t *testing.T) {
	t.Parallel()
	other := candidates(1)[0]
	for _, deduplicating := range []bool{false, true} {
		for _, server := range []string{"api", "elements"} {
			t.Run(fmt.Sprint(server, " deduplicating ", deduplicating), func(t *testing.T) {
				t.Parallel()
				seen := map[string][]string{}
				for _, number := range []string{secretNumber, other} {
					w := newWorld(t, nil)
					must.Get(w.Owner.ReplaceTenant(t.Context(), vault.TenantParams{Name: "Acme", Settings: vault.TenantSettings{DeduplicateTokens: deduplicating}}))(t)
					at := map[string]*httptest.Server{"api": w.api, "elements": w.el}[server]
					for i := range guesses("") {
						id, _ := w.newCard(secretNumber).body["id"].(string)
						g := guesses(id)[i]
						r := w.send(at, g.method, g.path, w.PublicKey, strings.ReplaceAll(g.body, "API", number))
						seen[number] = append(seen[number], strings.NewReplacer(number, "API", number[6:12], "MIDDLE").Replace(observe(r)))
						if g.method == "POST" && !strings.Contains(g.body, id) && strings.Contains(r.text, id) {
							t.Errorf("%s %s was answered with the token", g.path, g.body)
						}
						must.Do(t, w.Owner.DeleteToken(t.Context(), id))
					}
				}
				for i, g := range guesses("ID") {
					must.Same(t, g.path+" "+g.body, seen[other][i], seen[secretNumber][i])
				}
			})
		}
	}
}

// TestManyGuesses creates all candidates with deduplication, in batches, before and after the
// card was typed. No response is the token, and no token of a candidate is found by it.
func TestManyGuesses(t *testing.T) {
	t.Parallel()
	most := 1_000
	if long.Run {
		most = 100_000
	}
	w := newWorld(t, nil)
	all := candidates(most)
	must.Contain(t, "the candidates", strings.Join(all[len(all)-1:], ""), secretNumber)
	taken := map[string]bool{}
	flood := func(victim string) {
		for chunk := range slices.Chunk(all, 500) {
			var body []string
			for _, number := range chunk {
				body = append(body, `{"type":"card","data":{"number":"`+number+`"},"deduplicate_token":true}`)
			}
			r := w.send(w.api, "POST", "/tokenize", w.PublicKey, "["+strings.Join(body, ",")+"]")
			must.Same(t, "tokenize", 200, r.status)
			var tokens []vault.Token
			must.Do(t, json.Unmarshal([]byte(r.text), &tokens))
			for _, each := range tokens {
				if taken[each.ID] = true; each.ID == victim {
					t.Error("a guess was answered with the token")
				}
			}
		}
	}
	flood("")
	victim, _ := w.newCard(secretNumber).body["id"].(string)
	if taken[victim] {
		t.Error("the card was answered with the token of a guess")
	}
	flood(victim)
	before := len(taken)
	must.Same(t, "each guess has one token", len(all), before)
	r := w.send(w.api, "PATCH", "/tokens/"+victim, w.PublicKey, `{"deduplicate_token":true}`)
	must.Same(t, r.text, victim, r.body["id"])
	flood(victim)
	must.Same(t, "a patch made it no match", before, len(taken))

	// The owner of the vault still has an ordinary card.
	read := must.Get(w.Private.GetToken(t.Context(), victim))(t)
	must.Contain(t, "the card", string(read.Data), "XXXXXXXXXXXX0002")
	if text := must.Get(json.Marshal(read))(t); strings.Contains(string(text), secretNumber[6:12]) {
		t.Error("the token shows the number")
	}
}

// TestLaterChangesMakeNoMatch changes a token of elements, and the tenant, in every way that
// does not give the token another fingerprint expression. Deduplication never finds it.
func TestLaterChangesMakeNoMatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	victim, _ := w.newCard(secretNumber).body["id"].(string)
	guess := `{"type":"card","data":{"number":"` + secretNumber + `"},"deduplicate_token":true}`
	ordinary, _ := w.send(w.api, "POST", "/tokens", w.PublicKey, guess).body["id"].(string)
	for _, patch := range []string{
		`{"deduplicate_token":true}`, `{"deduplicate_token":null}`, `{"metadata":{"a":"b"}}`, `{"data":{"expiration_year":2031}}`, `{"data":{"number":"` + secretNumber + `"},"deduplicate_token":true}`,
		`{"expires_at":"2040-01-01T00:00:00Z"}`, `{"containers":["/pci/high/x/"]}`, `{"mask":null,"search_indexes":null}`,
	} {
		_, err := w.Owner.PatchToken(t.Context(), victim, json.RawMessage(patch))
		must.Do(t, err)
		for _, on := range []bool{true, false} {
			must.Get(w.Owner.ReplaceTenant(t.Context(), vault.TenantParams{Name: "Acme", Settings: vault.TenantSettings{DeduplicateTokens: on}}))(t)
			r := w.send(w.api, "POST", "/tokens", w.PublicKey, guess)
			must.Same(t, patch, ordinary, r.body["id"])
			r = w.send(w.el, "PATCH", "/tokens/"+victim, w.PublicKey, `{"metadata":{"a":"c"}}`)
			must.Same(t, patch+": "+r.text, victim, r.body["id"])
			if fresh := w.newCard(secretNumber).body["id"]; fresh == ordinary || fresh == victim {
				t.Errorf("%s: a card typed into a frame was answered with a token", patch)
			}
		}
	}
	// A public key cannot bring the ordinary expression back, with any data that stays.
	for _, patch := range []string{
		`{"fingerprint_expression":null,"deduplicate_token":true}`, `{"data":{"cvc":"999"},"fingerprint_expression":null,"deduplicate_token":true}`,
		`{"data":{"expiration_month":1},"fingerprint_expression":"{{ data.number }}"}`, `{"data":{},"fingerprint_expression":"{{ data.number }}"}`,
		`{"data":{"cvc":null},"mask":"{{ data.number }}"}`, `{"data":{"expiration_month":null},"search_indexes":["{{ data.number }}"]}`,
	} {
		r := w.send(w.api, "PATCH", "/tokens/"+victim, w.PublicKey, patch)
		must.Same(t, patch+": "+r.text, 403, r.status)
	}
}
