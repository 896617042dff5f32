package jsruntime_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/jsruntime"
)

// TestAttacksWithPackages runs the attacks where packages are: from the code of a
// tenant that has loaded one, and from inside a package. The process lives, the
// attack ends in time, and the next tenant notices nothing.
func TestAttacksWithPackages(t *testing.T) {
	files := map[string]string{"node_modules/helper/index.js": "exports.twice = (n) => 2 * n;"}
	attacks := readCorpus(t, "attacks.jsonl")
	for i, s := range attacks {
		files[fmt.Sprintf("node_modules/attack%d/index.js", i)] = asFunction(s.Body)
	}
	r := newWorkers(t, &jsruntime.Options{Modules: writeFolder(t, files)})
	const limit = 400 * time.Millisecond
	for i, s := range attacks {
		for where, body := range map[string]string{
			"beside a package": "require('helper').twice(1);" + s.Body,
			"in a package":     fmt.Sprintf("return await require('attack%d')({});", i),
		} {
			t.Run(s.Name+"/"+where, func(t *testing.T) {
				start := time.Now()
				_, err := runBody(r, "attacker", body, limit)
				if took := time.Since(start); took > limit+3*time.Second {
					t.Errorf("the answer took %v: %s", took, explain(err))
				}
				got, err := runBody(r, "other", "return require('helper').twice(21)", 10*time.Second)
				if err != nil || got != "42" {
					t.Errorf("the next tenant got %s, %s", got, explain(err))
				}
			})
		}
	}
}
