package evidence

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestVerifiersAgree changes bundles and notes at random, and compares the exit
// status of verify.py with the verdict of Verify.
func TestVerifiersAgree(t *testing.T) {
	t.Parallel()
	seeds := auditSeeds(t)
	var all []audited
	for _, a := range seeds {
		lines := bytes.SplitAfter(a.bundle, []byte("\n"))
		for i := range lines {
			all = append(all, audited{fmt.Sprintf("%s, cut after %d lines", a.what, i), bytes.Join(lines[:i], nil), a.since, a.vkey})
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range long.Rounds(60, 5000) {
		a := seeds[r.IntN(len(seeds))]
		var what string
		switch r.IntN(4) {
		case 0:
			what, a.bundle = inHeader(a.bundle, func(note []byte) (string, []byte) { return changeNote(r, note) })
			what = "note of the bundle: " + what
		case 1:
			what, a.since = changeNote(r, a.since)
			what = "earlier note: " + what
		default:
			what, a.bundle = changeLine(r, a.bundle)
		}
		a.what += ", " + what
		all = append(all, a)
	}
	wantSame(t, append(all, seeds...))
}

// audited is a bundle with an earlier note and a key.
type audited struct {
	what          string
	bundle, since []byte
	vkey          string
}

// status returns the exit status for the verdict of Verify.
func (a *audited) status() string {
	switch r, err := Verify(bytes.NewReader(a.bundle), a.vkey, a.since); {
	case err != nil || r.OK() && r.Entries == 0:
		return "6"
	case !r.OK():
		return "5"
	}
	return "0"
}

// auditSeeds returns bundles with every kind of line, a restore and a change of the
// key.
func auditSeeds(t *testing.T) []audited {
	w, early := full(t), newModelVault(t)
	for _, kind := range []Kind{KindImported, KindImported, KindImported, KindEntry} {
		early.enter(kind)
	}
	restored, changed := newModelVault(t), newModelVault(t)
	restored.enter(KindEntry)
	before := restored.checkpoint()
	restored.origin = OriginAfter(testOrigin, 1)
	restored.note(Event{Kind: EventRestored, Origin: restored.origin, Notes: []string{string(before)}, Reason: "disk"}, true)
	restored.enter(KindImported)
	changed.enter(KindEntry)
	first, old := changed.checkpoint(), changed.vkey
	changed.signer, changed.vkey = signer(t, 9)
	changed.note(Event{Kind: EventKeyChanged, Keys: []string{old, changed.vkey}}, true)
	return []audited{
		{"full", w.bundle(), early.checkpoint(), w.vkey}, {"restored", restored.bundle(), before, restored.vkey}, {"changed", changed.bundle(), first, changed.vkey},
	}
}

var (
	jsonValue = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9]+|\[[^\[\]]*\]`)
	oddValues = []string{
		`NaN`, `Infinity`, `-0`, `0`, `-1`, `1`, `1.0`, `1e0`, `01`, `9223372036854775807`, `9223372036854775808`, `1e400`, `true`, `null`,
		strings.Repeat("9", 400), strings.Repeat("9", 5000), `""`, `"x"`, `"\ud800"`, `"\u0000"`, `"\u00e9"`, "\"e\u0301\"", "\"\xff\"", "\"a\x00b\"",
		`[]`, `{}`, `[[]]`, `[null]`, `{"":{}}`, strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), `"` + strings.Repeat("A", maxLine) + `"`,
	}
	oddTexts = []string{
		" ", "\r", "\n", "\u2028", "\ufeff", "\x00", "\x85", "\u0085", ",", "}", `"`, `,"n":0`, `,"events":0`, `,"note":"x"`, `,"x":1`, "e0", `\u0041`, "=", `\n`, `\u0085`,
	}
)

// changeLine changes one line of a bundle.
func changeLine(r *rand.Rand, bundle []byte) (what string, changed []byte) {
	lines := bytes.SplitAfter(bytes.TrimSuffix(bundle, []byte("\n")), []byte("\n"))
	i := r.IntN(len(lines))
	line := lines[i]
	var from, to int
	var text string
	if all := jsonValue.FindAllIndex(line, -1); r.IntN(2) == 0 && len(all) > 0 {
		at := all[r.IntN(len(all))]
		from, to, text = at[0], at[1], oddValues[r.IntN(len(oddValues))]
	} else {
		from = r.IntN(len(line) + 1)
		to, text = from, oddTexts[r.IntN(len(oddTexts))]
	}
	lines[i] = slices.Concat(line[:from], []byte(text), line[to:])
	return fmt.Sprintf("line %d: %.40q becomes %.40q", i, line[from:to], text), append(bytes.Join(lines, nil), '\n')
}

// inHeader changes the note in the first line of a bundle.
func inHeader(bundle []byte, change func([]byte) (string, []byte)) (what string, changed []byte) {
	line, rest, _ := bytes.Cut(bundle, []byte("\n"))
	var h headerLine
	decode(line, &h)
	what, note := change([]byte(h.Note))
	h.Note = string(note)
	return what, slices.Concat(encode(h), []byte("\n"), rest)
}

// changeNote gives a note other signatures, and other ends of lines.
func changeNote(r *rand.Rand, note []byte) (what string, changed []byte) {
	text, signature, _ := strings.Cut(string(note), "\n\n")
	line := strings.TrimSuffix(signature, "\n")
	encoded := line[strings.LastIndexByte(line, ' ')+1:]
	raw, _ := base64.StdEncoding.DecodeString(encoded)
	signed := func(name string, raw []byte) string {
		return "— " + name + " " + base64.StdEncoding.EncodeToString(raw)
	}
	wrong := slices.Clone(raw)
	wrong[20] ^= 1
	odd := []string{
		line, signed("other", raw), signed(testOrigin, wrong), signed(testOrigin, append(slices.Clone(raw), 0)), signed(testOrigin, raw[:67]), signed(strings.ToUpper(testOrigin), raw),
		"— other !!!", "— other AAAA", "— other AAAAAAA=", "— other AAAAAAB=", "— other", "other " + encoded, "- other " + encoded, "", line + " ", line + "\r", strings.TrimRight(line, "="),
		"— other " + strings.Repeat("A", 100_000), strings.TrimSuffix(strings.Repeat("— other AAAAAAAA\n", 100), "\n"), "— \xff " + encoded,
	}
	for _, between := range []string{"+", "\u00a0", "\u0085", "\u200b", "\t", "\x7f", "\x1c", "\u2028", "\ufeff", " "} {
		odd = append(odd, "— a"+between+"b "+encoded)
	}
	lines := []string{line}[r.IntN(2):]
	for range 1 + r.IntN(2) {
		lines = slices.Insert(lines, r.IntN(len(lines)+1), odd[r.IntN(len(odd))])
	}
	pick := func(usual string, rare ...string) string {
		return append(rare, usual, usual, usual)[r.IntN(len(rare)+3)]
	}
	end := pick("\n\n", "\n", "\n\n\n", "\n\n"+line+"\n\n") + strings.Join(lines, "\n") + pick("\n", "", "\n\n")
	out := strings.ReplaceAll(text+end, "\n", pick("\n", "\r\n"))
	return fmt.Sprintf("%.300q", out[len(text):]), []byte(out)
}

// auditor runs verify.py on each line of its input.
const auditor = `
import contextlib, io, sys, verify
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            status = verify.main(*line.split())
        except Exception as err:
            status = type(err).__name__
    print(status)
`

func wantSame(t *testing.T, all []audited) {
	t.Helper()
	dir, input := t.TempDir(), ""
	for i, a := range all {
		bundle, note := filepath.Join(dir, fmt.Sprint(i)), filepath.Join(dir, fmt.Sprint(i, ".note"))
		must.Do(t, os.WriteFile(bundle, a.bundle, 0o600))
		must.Do(t, os.WriteFile(note, a.since, 0o600))
		input += bundle + " " + a.vkey + " " + note + "\n"
	}
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "-c", auditor)
	cmd.Dir, cmd.Stdin = filepath.Join("..", "examples", "evidence"), strings.NewReader(input)
	out, err := cmd.Output()
	got := strings.Fields(string(out))
	if err != nil || len(got) != len(all) {
		t.Fatalf("verify.py gives %d of %d results: %v", len(got), len(all), err)
	}
	for i := range all {
		if want := all[i].status(); got[i] != want {
			t.Errorf("%s: the status of verify.py is %s, of Verify %s", all[i].what, got[i], want)
		}
	}
}
