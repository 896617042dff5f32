package vaultclient_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// importAll records the results of an import.
func importAll(w *apiVault, c vault.API, rows iter.Seq2[vault.TokenParams, error], opts *vault.ImportOptions) {
	for r, err := range c.Import(w.t.Context(), rows, opts) {
		w.saw("Import", []any{r.Row, r.Outcome, r.ID, r.Errors, r.Detail}, errors.Join(err, r.Err))
	}
}

func rowsOf(rows ...vault.TokenParams) iter.Seq2[vault.TokenParams, error] {
	return func(yield func(vault.TokenParams, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

func text(id, data string) vault.TokenParams {
	return vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: data}
}

func importRows(w *apiVault) {
	bad := &vault.InvalidError{Fields: map[string][]string{"column 3": {"is no number"}}}
	rows := func(yield func(vault.TokenParams, error) bool) {
		for i := range 2100 {
			p, err := text(fmt.Sprintf("row-%d", i), "x"), error(nil)
			switch i % 700 {
			case 1:
				p = vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4111111111111112"}}
			case 2:
				p, err = vault.TokenParams{}, bad
			case 3:
				p.ID = "row-0"
			case 4:
				p.Data = make(chan int) // cannot be encoded as JSON
			case 5:
				p.Data = strings.Repeat("long ", 20_000)
			}
			if !yield(p, err) {
				return
			}
		}
	}
	importAll(w, w.private, rows, nil)
	importAll(w, w.management, rows, nil)
	importAll(w, w.private, rowsOf(), nil)
	limited, _ := w.NewApplication(w.t, w.Owner, vault.ApplicationPrivate, []vault.AccessRule{{Priority: 1, Container: "/a/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create"}}})
	importAll(w, limited, rowsOf(vault.TokenParams{ID: "in-a", Type: vault.TypeGeneric, Data: 1, Containers: []string{"/a/"}}, text("in-general", "x")), nil)
}

func importOptions(w *apiVault) {
	w.token(text("there", "x"))
	for _, how := range []vault.OnDuplicate{"", vault.DuplicateFails, vault.DuplicateSkips, vault.DuplicateUpdates, "other"} {
		importAll(w, w.private, rowsOf(text("there", "y")), &vault.ImportOptions{OnDuplicate: how})
	}
	for range 2 {
		importAll(w, w.private, rowsOf(vault.TokenParams{Type: vault.TypeGeneric, Data: 1}), &vault.ImportOptions{Name: "a file", FirstRow: 41, Resumed: true, OnDuplicate: vault.DuplicateFails})
	}
	importAll(w, w.private, rowsOf(text("row", "x")), &vault.ImportOptions{FirstRow: -1, Name: "\x00"})
}

// importEnded ends imports early.
func importEnded(w *apiVault) {
	broken := errors.New("the file is broken")
	importAll(w, w.private, func(yield func(vault.TokenParams, error) bool) {
		_ = yield(text("one", "x"), nil) && yield(vault.TokenParams{}, broken) && yield(text("two", "x"), nil)
	}, nil)
	n := 0
	for r, err := range w.private.Import(w.t.Context(), func(yield func(vault.TokenParams, error) bool) {
		for i := 0; yield(text(fmt.Sprintf("endless-%d", i), "x"), nil); i++ {
		}
	}, nil) {
		if n++; err != nil || n == 1500 {
			w.saw("Import", r.Row, err)
			break
		}
	}
}

func followLogs(w *apiVault) {
	ctx := w.t.Context()
	done := errors.New("done")
	n := 0
	for batch, err := range w.management.FollowLogs(ctx, "") {
		must.Do(w.t, err)
		for _, entry := range batch.Data {
			w.saw("FollowLogs", entry, nil)
		}
		if len(batch.Data) > 0 {
			w.saw("FollowLogs", "", done)
		}
		if n += len(batch.Data); n >= 3 {
			break
		}
		w.token(text(fmt.Sprintf("tok-%d", n), "x"))
	}
	for batch, err := range w.management.FollowLogs(ctx, vault.LogsSince(w.Clock.Now())) {
		w.saw("FollowLogs", len(batch.Data), err)
		break
	}
	for _, err := range w.private.FollowLogs(ctx, "") {
		w.saw("FollowLogs", "", err)
	}
}

func nextLogsRefused(w *apiVault) {
	for _, cursor := range []string{"x", "since:x", "\x00"} {
		_, err := w.management.NextLogs(w.t.Context(), cursor, 0)
		w.saw("NextLogs", "", err)
	}
	_, err := w.private.NextLogs(w.t.Context(), "", 0)
	w.saw("NextLogs", "", err)
	batch, err := w.management.NextLogs(w.t.Context(), "", -1)
	w.saw("NextLogs", len(batch.Data), err)
}

// TestImportIntoAServerThatIsNotAVault imports into a server that is not a vault.
func TestImportIntoAServerThatIsNotAVault(t *testing.T) {
	t.Parallel()
	w := overHTTP(t, 0)
	c := newClient(t, w.dest, "key", nil)
	var got error
	for _, err := range c.Import(t.Context(), rowsOf(text("row", "x")), nil) {
		got = err
	}
	must.Match(t, "a server that is not a vault accepted an import", got, must.Text("it has a line that is not the result of a row"))
}

// TestImportMissesResults gets a complete response without the results of all
// rows. A proxy may send one after a broken connection.
func TestImportMissesResults(t *testing.T) {
	t.Parallel()
	broken := errors.New("the file is broken")
	for name, c := range map[string]struct {
		answer string
		rows   iter.Seq2[vault.TokenParams, error]
		want   error
	}{
		"none of two": {"", rowsOf(text("a", "x"), text("b", "x")), io.ErrUnexpectedEOF},
		"one of two":  {`{"row":1,"outcome":"created","id":"a"}`, rowsOf(text("a", "x"), text("b", "x")), io.ErrUnexpectedEOF},
		"all":         {`{"row":1,"outcome":"created","id":"a"}`, rowsOf(text("a", "x")), nil},
		"rows that break": {`{"row":1,"outcome":"created","id":"a"}`, func(yield func(vault.TokenParams, error) bool) {
			_ = yield(text("a", "x"), nil) && yield(vault.TokenParams{}, broken)
		}, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, func(_ int, w http.ResponseWriter, r *http.Request, _ http.Handler) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("SVC-TRACE-ID", "x")
				_, _ = io.WriteString(w, c.answer)
			})
			var got error
			for _, err := range f.client(t, f.PrivateKey, vaultclient.Options{}).Import(t.Context(), c.rows, nil) {
				got = err
			}
			must.Match(t, "got", got, c.want)
		})
	}
}
