// Host embeds jsruntime and has an init function with effects. It runs a
// program in a worker, which is the program named by its argument or the host
// itself. It writes the descriptors of every worker as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/jsruntime/testdata/host/secrets"
	"github.com/seed-72ea4aab/vault/script"
)

type host struct{}

func (host) Call(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, nil }
func (host) Log(script.Line)                                                        {}

func main() {
	defer secrets.Conn.Close()
	r := jsruntime.New(&jsruntime.Options{WorkerPath: strings.Join(os.Args[1:], "")})
	defer r.Close()
	out, err := r.Run(context.Background(), script.Program{Source: "module.exports = () => 1"}, nil, host{})
	if err != nil || string(out) != "1" {
		fmt.Fprintln(os.Stderr, string(out), err)
		os.Exit(1)
	}
	var workers []map[string]string
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(children)) {
			workers = append(workers, descriptors(pid))
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(workers)
}

// descriptors returns the open descriptors of a worker, unless it is still
// starting.
func descriptors(pid string) map[string]string {
	status, _ := os.ReadFile("/proc/" + pid + "/status")
	if !strings.Contains(string(status), "Seccomp:\t2\n") {
		return nil
	}
	out := map[string]string{}
	paths, _ := filepath.Glob("/proc/" + pid + "/fd/*")
	for _, path := range paths {
		out[filepath.Base(path)], _ = os.Readlink(path)
	}
	return out
}
