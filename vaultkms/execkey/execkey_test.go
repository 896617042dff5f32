package execkey

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// helper is the first argument of this test binary as the program of a key. The
// second is a file with its behaviour.
const helper = "helper"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == helper {
		help(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// help is a program of a key. Its key is the byte 0x55, and it binds the associated data.
func help(mode string) {
	fmt.Fprintf(os.Stderr, "started with %d variables\n", len(os.Environ()))
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) != nil || bytes.Contains(lines.Bytes(), []byte("null")) {
			os.Exit(3)
		}
		for i := range r.Data {
			r.Data[i] ^= 0x55
		}
		bound := true
		if r.Op == opEncrypt {
			r.Data = append(r.Data, r.AAD...)
		} else {
			r.Data, bound = bytes.CutSuffix(r.Data, xor(r.AAD))
		}
		text, _ := os.ReadFile(mode)
		switch string(text) {
		case "denied":
			fmt.Printf(`{"id": %d, "error": "the key is gone", "denied": true}`+"\n", r.ID)
		case "down":
			fmt.Printf(`{"id": %d, "error": "no session"}`+"\n", r.ID)
		case "long":
			fmt.Println(strings.Repeat("x", maxLine+1))
		case "garbage":
			fmt.Println("hello")
		case "unknown id":
			fmt.Printf(`{"id": %d, "data": ""}`+"\n", r.ID+100)
		case "ended":
			os.Exit(1)
		case "silent":
		default:
			if !bound {
				fmt.Printf(`{"id": %d, "error": "other associated data"}`+"\n", r.ID)
				continue
			}
			fmt.Printf(`{"id": %d, "data": "%s"}`+"\n", r.ID, base64.StdEncoding.EncodeToString(r.Data))
		}
	}
}

func xor(b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0x55
	}
	return out
}

// lines is a log whose lines can be counted.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(strings.Join(l.all, ""), part)
}

// ask decrypts.
func ask(t *testing.T, key vault.AEAD, sealed []byte) error {
	t.Helper()
	plain, err := key.Decrypt(sealed, []byte("place"))
	if err == nil && string(plain) != "root" {
		t.Errorf("got %q", plain)
	}
	return err
}

// A program can deny, fail, write nonsense and end. Calls in flight fail, and the
// next program serves.
func TestProgram(t *testing.T) {
	t.Parallel()
	for mode, denied := range map[string]bool{
		"denied": true, "down": false, "long": false, "garbage": false, "unknown id": false, "ended": false, "silent": false,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			var log lines
			file := filepath.Join(t.TempDir(), "mode")
			set := func(mode string) {
				must.Do(t, os.WriteFile(file, []byte(mode), 0o600))
			}
			set("ok")
			key := must.Get(Open(t.Context(), "exec:"+os.Args[0]+" "+helper+" "+file, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
			t.Cleanup(func() { must.Do(t, key.Close()) })
			sealed := must.Get(key.Encrypt([]byte("root"), []byte("place")))(t)
			must.Do(t, ask(t, key, sealed))
			must.Fail(key.Decrypt(sealed, []byte("other")))(t, "another place", must.Text("other associated data"))
			set(mode)
			if err := ask(t, key, sealed); err == nil || errors.Is(err, vault.ErrKeyDenied) != denied {
				t.Errorf("got %v, denied: %v", err, denied)
			}
			set("ok")
			for ask(t, key, sealed) != nil { // at most once a second it is started
				if t.Context().Err() != nil {
					t.Fatal("it does not come back")
				}
			}
			if !log.has("started with 1 variables") {
				t.Errorf("the log: %q", log.all)
			}
		})
	}
}

// Close ends the program, also a silent one, and fails requests in flight.
func TestClose(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mode")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	var ended []int
	for range 3 {
		opened := must.Get(Open(t.Context(), "exec:"+os.Args[0]+" "+helper+" "+file, &Options{Logger: slog.New(slog.DiscardHandler)}))(t)
		must.Get(opened.Encrypt([]byte("root"), nil))(t)
		process := opened.(*key).program.running
		must.Do(t, os.WriteFile(file, []byte("silent"), 0o600))
		inFlight := must.Get(process.send(opDecrypt, nil, nil))(t)
		must.Do(t, opened.Close())
		must.Match(t, "a call in flight", (<-inFlight).failed, errClosed)
		must.Match(t, "a call after it", must.Err(opened.DecryptWithContext(context.Background(), nil, nil)), errClosed)
		must.Do(t, opened.Close())
		must.Do(t, os.WriteFile(file, nil, 0o600))
		ended = append(ended, process.cmd.Process.Pid)
	}
	for _, pid := range ended {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the program is still there: %v", err)
		}
	}
	must.Do(t, must.Get(Open(t.Context(), "exec:true", nil))(t).Close())
}

// Close also ends the programs that the program has started, and does not wait for one
// that has left its group and holds its output.
func TestCloseEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]string{"in the group": "sleep 600", "outside": `setsid sleep 600`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			script, mode, pids := filepath.Join(folder, "script"), filepath.Join(folder, "mode"), filepath.Join(folder, "pids")
			text := "#!/bin/sh\n" + start + " &\necho $! >" + pids + "\n" + os.Args[0] + " " + helper + " " + mode + "\n"
			must.Do(t, os.WriteFile(script, []byte(text), 0o700)) //nolint:gosec // it is run
			opened := must.Get(Open(t.Context(), "exec:"+script, &Options{Logger: slog.New(slog.DiscardHandler)}))(t)
			must.Get(opened.Encrypt([]byte("root"), nil))(t)
			must.Do(t, opened.Close())
			pid := strings.TrimSpace(string(must.Get(os.ReadFile(pids))(t)))
			if name == "outside" {
				number := must.Get(strconv.Atoi(pid))(t)
				must.Do(t, syscall.Kill(number, syscall.SIGKILL))
				return
			}
			for lives(pid) {
				if t.Context().Err() != nil {
					t.Fatal("it has not ended")
				}
			}
		})
	}
}

// lives reports whether a process runs, where /proc tells.
func lives(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// A key shows the name of its program, and not its arguments, which may hold secrets.
func TestKeyDoesNotPrintArguments(t *testing.T) {
	t.Parallel()
	key := must.Get(Open(t.Context(), "exec:/opt/hunter2/program hunter2", nil))(t)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		must.Same(t, verb, "exec:program", fmt.Sprintf(verb, key))
	}
	var log lines
	slog.New(slog.NewJSONHandler(&log, nil)).Info("opened", "key", key)
	slog.New(slog.NewTextHandler(&log, nil)).Info("opened", "key", key)
	must.Same(t, "the arguments are in the log", false, log.has("hunter2"))
}

func TestLines(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "exec:", "exec: ", "program", "awskms:///k"} {
		must.Fail(Open(t.Context(), line, nil))(t, line, must.Text("exec:PROGRAM"))
	}
}
