package evidence

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

var update = flag.Bool("update", false, "write the files in testdata")

func verify(t *testing.T, bundle []byte, vkey string, since []byte) *Report {
	t.Helper()
	return must.Get(Verify(bytes.NewReader(bundle), vkey, since))(t)
}

func verdicts(r *Report) []Verdict {
	var all []Verdict
	for _, f := range r.Findings {
		all = append(all, f.Verdict)
	}
	return all
}

// withoutEntries compares findings without what they say about entries.
var withoutEntries = cmpopts.IgnoreFields(Finding{}, "Entry")

func TestVerifyAcceptsAGenuineBundle(t *testing.T) {
	t.Parallel()
	w := full(t)
	r := verify(t, w.bundle(), w.vkey, nil)
	want := []Finding{
		{Tenant: w.tenant, Index: -1, EntryID: r.Findings[0].EntryID, Verdict: LostRead},
		{Tenant: w.tenant, Index: 0, Verdict: Expired},
		{Tenant: w.tenant, Index: 2, EntryID: w.leaves[2].ID, Verdict: Expired},
		{Tenant: w.tenant, Index: 4, EntryID: w.leaves[4].ID, Verdict: Expired},
		{Tenant: w.tenant, Index: 6, EntryID: w.leaves[6].ID, Verdict: Erased},
	}
	if diff := cmp.Diff(want, r.Findings, withoutEntries); diff != "" || !r.OK() {
		t.Errorf("OK is %v\n%s", r.OK(), diff)
	}
	if r.Entries != 8 || r.Tenants != 1 || r.Notes != 1 || !r.From.Before(r.To) || r.Size != w.vault.size || r.Origin != testOrigin {
		t.Errorf("the report has %d entries, size %d, origin %s", r.Entries, r.Size, r.Origin)
	}
}

// TestGolden pins the format, and writes the input for the verifier in
// examples.
func TestGolden(t *testing.T) {
	t.Parallel()
	w := full(t)
	since := newModelVault(t) // has the same start as w
	for _, kind := range []Kind{KindImported, KindImported, KindImported, KindEntry} {
		since.enter(kind)
	}
	fork := newModelVault(t)
	fork.enter(KindEntry)
	for name, content := range map[string][]byte{
		"since.txt": since.checkpoint(), "fork.txt": fork.checkpoint(), "bundle.ndjson": w.bundle(), "proof.txt": w.proof(7), "key.txt": []byte(w.vkey + "\n"),
	} {
		path := filepath.Join("testdata", name)
		if *update {
			must.Do(t, os.WriteFile(path, content, 0o644))
		}
		golden := must.Get(os.ReadFile(path))(t)
		if !bytes.Equal(golden, content) {
			t.Errorf("%s differs from the current output", path)
		}
	}
}

func TestEveryByteOfABundleMatters(t *testing.T) {
	t.Parallel()
	w := full(t)
	bundle := w.bundle()
	for i := range bundle {
		bad := slices.Clone(bundle)
		bad[i] ^= []byte{0x01, 0x20}[i%2] // another character, or the same letter in another case
		if r, err := Verify(bytes.NewReader(bad), w.vkey, nil); err == nil && r.OK() {
			t.Fatalf("byte %d (%q) may become %q", i, bundle[i], bad[i])
		}
	}
}

func TestTruncatedBundleIsNoticed(t *testing.T) {
	t.Parallel()
	w := full(t)
	bundle := w.bundle()
	for i := range bundle {
		if r, err := Verify(bytes.NewReader(bundle[:i]), w.vkey, nil); err == nil && r.OK() {
			t.Fatalf("a bundle may end after %d of %d bytes", i, len(bundle))
		}
	}
}

func TestEveryLineOfABundleMatters(t *testing.T) {
	t.Parallel()
	w := full(t)
	lines := bytes.SplitAfter(bytes.TrimSuffix(w.bundle(), []byte("\n")), []byte("\n"))
	lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
	refuse := func(what string, i, j int, all [][]byte) {
		t.Helper()
		r, err := Verify(bytes.NewReader(bytes.Join(all, nil)), w.vkey, nil)
		if err != nil || r.OK() {
			t.Errorf("%s %d, %d: %v", what, i, j, err)
		}
	}
	for i := range lines {
		refuse("without", i, 0, slices.Delete(slices.Clone(lines), i, i+1))
		for j := range len(lines) + 1 {
			refuse("doubled", i, j, slices.Insert(slices.Clone(lines), j, lines[i]))
		}
		for j := range i {
			all := slices.Clone(lines)
			all[i], all[j] = all[j], all[i]
			refuse("swapped", i, j, all)
		}
	}
}

// TestVerdicts tampers with a log in each way and checks the verdict.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tamper func(w *modelVault) []byte
		want   []Finding // without the tenant
	}{
		"altered": {func(w *modelVault) []byte {
			w.leaves[1].Entry.Operation = "read"
			return w.bundle()
		}, []Finding{{Index: 1, Verdict: Altered}}},
		"erased without an event": {func(w *modelVault) []byte {
			left := w.leaves[1].Entry.redacted()
			w.leaves[1].Entry, w.leaves[1].Mac = &left, nil
			return w.bundle()
		}, []Finding{{Index: 1, Verdict: Altered}}},
		"row deleted": {func(w *modelVault) []byte {
			w.leaves[2].Entry, w.leaves[2].Mac = nil, nil
			return w.bundle()
		}, []Finding{{Index: 2, Verdict: Missing}}},
		"line deleted": {func(w *modelVault) []byte {
			return edit(w.bundle(), func(l [][]byte) [][]byte { return slices.Delete(l, 5, 6) })
		}, []Finding{{Index: 2, Verdict: Missing}}},
		"swapped": {func(w *modelVault) []byte {
			return edit(w.bundle(), func(l [][]byte) [][]byte { l[4], l[5] = l[5], l[4]; return l })
		}, []Finding{{Index: 1, Verdict: Reordered}}},
		"forged": {func(w *modelVault) []byte {
			b := w.bundle()
			w.enter(KindEntry)
			line := append(encodeLeaf(w, 4), '\n')
			return edit(b, func(l [][]byte) [][]byte { return slices.Insert(l, 7, line) })
		}, []Finding{{Index: 4, Verdict: Forged}}},
		"cut": {func(w *modelVault) []byte {
			return edit(w.bundle(), func(l [][]byte) [][]byte { return l[:5] })
		}, []Finding{{Index: -1, Verdict: Truncated}}},
		"another key": {func(w *modelVault) []byte {
			w.signer, _ = signer(w.t, 2)
			return w.bundle()
		}, []Finding{{Index: -1, Verdict: BadSignature}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newModelVault(t)
			for range 4 {
				w.enter(KindEntry)
			}
			vkey := w.vkey
			r := verify(t, c.tamper(w), vkey, nil)
			for i := range r.Findings {
				r.Findings[i].Tenant, r.Findings[i].EntryID = uuid.UUID{}, uuid.UUID{}
			}
			if diff := cmp.Diff(c.want, r.Findings, withoutEntries); diff != "" || r.OK() {
				t.Errorf("OK is %v\n%s", r.OK(), diff)
			}
		})
	}
}

func encodeLeaf(w *modelVault, n int64) []byte {
	var b bytes.Buffer
	must.Do(w.t, NewWriter(&b).Leaf(&w.leaves[n]))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// edit changes the lines of a bundle.
func edit(bundle []byte, do func([][]byte) [][]byte) []byte {
	lines := bytes.SplitAfter(bundle, []byte("\n"))
	return bytes.Join(do(lines[:len(lines)-1]), nil)
}

// wantAgreement fails the test unless verify.py has the same result as Verify.
func wantAgreement(t *testing.T, bundle []byte, vkey string, since []byte) {
	t.Helper()
	want, dir := 0, t.TempDir()
	if r, err := Verify(bytes.NewReader(bundle), vkey, since); err != nil {
		want = 6
	} else if !r.OK() {
		want = 5
	}
	args := []string{"-B", filepath.Join("..", "examples", "evidence", "verify.py"), filepath.Join(dir, "bundle"), vkey}
	if since != nil {
		args = append(args, filepath.Join(dir, "note"))
	}
	for name, text := range map[string][]byte{"bundle": bundle, "note": since} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "python3", args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("verify.py needs python3: %v", err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("the status of verify.py is %d, want %d: %s", got, want, out)
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	w := newModelVault(t)
	w.enter(KindEntry)
	first, firstOfTenant := w.checkpoint(), w.tenantNote()
	w.enter(KindEntry)
	fork := func() *modelVault {
		f := newModelVault(t)
		f.enter(KindImported)
		return f
	}
	other := newModelVault(t)
	for range 5 {
		other.enter(KindEntry)
		other.checkpoint()
	}
	forked, bundle := fork(), w.bundle()
	for name, c := range map[string]struct {
		since []byte
		want  []Verdict
	}{
		"the vault's":    {first, nil},
		"the tenant's":   {firstOfTenant, nil},
		"none":           {nil, nil},
		"fork":           {forked.checkpoint(), []Verdict{Forked}},
		"fork of tenant": {forked.tenantNote(), []Verdict{Forked}},
		"ahead":          {other.checkpoint(), []Verdict{Truncated}},
		"ahead, tenant":  {other.tenantNote(), []Verdict{Truncated}},
	} {
		wantAgreement(t, bundle, w.vkey, c.since)
		r := verify(t, bundle, w.vkey, c.since)
		if diff := cmp.Diff(c.want, verdicts(r)); diff != "" || r.OK() != (c.want == nil) {
			t.Errorf("%s: OK is %v\n%s", name, r.OK(), diff)
		}
	}
}

func TestIncomparableNoteHasNoVerdict(t *testing.T) {
	t.Parallel()
	w := newModelVault(t)
	w.enter(KindEntry)
	w.checkpoint()
	w.note(Event{Kind: EventErasedAgain}, false)
	between := w.sign(&Checkpoint{w.origin, w.vault.size, w.vault.root(w.vault.size)}) // the bundle does not stop there
	w.note(Event{Kind: EventErasedAgain}, false)
	if r, err := Verify(bytes.NewReader(w.bundle()), w.vkey, between); !errors.Is(err, ErrCannotTell) || r == nil || !r.OK() {
		t.Errorf("got %v, %v", r, err)
	}
	other, _ := signer(t, 3)
	w.signer, other = other, w.signer
	strange := w.checkpoint()
	w.signer = other
	must.Fail(Verify(bytes.NewReader(w.bundle()), w.vkey, strange))(t, "a note of another key", ErrSignature)
	must.Fail(Verify(bytes.NewReader(w.bundle()), w.vkey, []byte("no note")))(t, "no note", ErrNote)
	for _, since := range [][]byte{between, strange, []byte("no note")} {
		wantAgreement(t, w.bundle(), w.vkey, since)
	}
}

func TestKeyChangeCoversEarlierNotes(t *testing.T) {
	t.Parallel()
	w := newModelVault(t)
	w.enter(KindEntry)
	first, old := w.checkpoint(), w.vkey
	w.signer, w.vkey = signer(t, 9)
	w.note(Event{Kind: EventKeyChanged, Keys: []string{old, w.vkey}}, true)
	for _, since := range [][]byte{first, w.checkpoint()} {
		if r := verify(t, w.bundle(), w.vkey, since); !r.OK() {
			t.Error(r.Findings)
		}
	}
}

func TestRestoreStaysVisible(t *testing.T) {
	t.Parallel()
	w := newModelVault(t)
	w.enter(KindEntry)
	before := w.checkpoint()
	lost := newModelVault(t) // the same history, continued
	lost.enter(KindEntry)
	lost.checkpoint()
	for range 3 {
		lost.enter(KindEntry)
	}
	lostNote, lostOfTenant := lost.checkpoint(), lost.tenantNote()

	w.origin = OriginAfter(testOrigin, 1)
	w.note(Event{Kind: EventRestored, Origin: w.origin, Notes: []string{string(lostNote), string(before)}, Reason: "disk"}, true)
	w.enter(KindImported)
	for name, since := range map[string][]byte{"before": before, "lost": lostNote} {
		r := verify(t, w.bundle(), w.vkey, since)
		if !r.OK() || len(r.Restores) != 1 || r.Restores[0].Reason != "disk" {
			t.Errorf("%s: %v, restores %v", name, r.Findings, r.Restores)
		}
	}
	for _, since := range [][]byte{before, lostNote, lostOfTenant} {
		wantAgreement(t, w.bundle(), w.vkey, since)
	}
	must.Fail(Verify(bytes.NewReader(w.bundle()), w.vkey, lostOfTenant))(t, "a note over lost entries", ErrCannotTell)
	w.events = w.events[:2] // hides the restore
	if r := verify(t, w.bundle(), w.vkey, nil); !slices.Equal(verdicts(r), []Verdict{Missing}) {
		t.Errorf("a hidden restore: %v", r.Findings)
	}
}

func TestVerifyCannotTell(t *testing.T) {
	t.Parallel()
	w := full(t)
	bundle := w.bundle()
	for name, c := range map[string]struct {
		bundle io.Reader
		vkey   string
		want   string
	}{
		"empty":         {bytes.NewReader(nil), w.vkey, "evidence: not a bundle"},
		"not a bundle":  {bytes.NewReader([]byte("GIF89a\n\n\n")), w.vkey, "evidence: not a bundle"},
		"no key":        {bytes.NewReader(bundle), "", "evidence: the key: "},
		"long line":     {bytes.NewReader(append(slices.Clone(bundle), bytes.Repeat([]byte("x"), 2*maxLine)...)), w.vkey, "a line has more than 1048576 bytes"},
		"failing input": {iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(bundle))), w.vkey, "reading the bundle: timeout"},
	} {
		must.Fail(Verify(c.bundle, c.vkey, nil))(t, name, must.Text(c.want))
	}
}

func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	var r Report
	for range MaxFindings + 5 {
		r.Add(Finding{Verdict: Erased})
	}
	if !r.OK() || len(r.Findings) != MaxFindings || r.More != 5 {
		t.Errorf("%d findings and %d more", len(r.Findings), r.More)
	}
	r.Add(Finding{Verdict: Forged})
	if r.OK() || r.Findings[MaxFindings].Verdict != Forged {
		t.Error("tampering is not listed after many other findings")
	}
}
