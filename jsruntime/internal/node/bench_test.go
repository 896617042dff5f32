package node

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// input1K is an input of about one kilobyte.
var input1K = json.RawMessage(`{"args":[` + strings.Repeat(`{"name":"customer","number":"4242424242424242","amount":1000,"ok":true},`, 13) + `1],"configuration":{"key":"value"}}`)

// ratio runs two functions in turns and reports the ratio of their typical
// times and its limit. A ratio above the limit is not a failure, because a busy
// machine changes it.
func ratio(b *testing.B, limit float64, measured, reference func()) {
	b.Helper()
	var a, c []time.Duration
	for b.Loop() {
		start := time.Now()
		measured()
		middle := time.Now()
		reference()
		a, c = append(a, middle.Sub(start)), append(c, time.Since(middle))
	}
	slices.Sort(a)
	slices.Sort(c)
	b.ReportMetric(a[len(a)/4].Seconds()/c[len(c)/4].Seconds(), "ratio")
	b.ReportMetric(limit, "limit")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkInputAgainstUnmarshal(b *testing.B) {
	vm := goja.New()
	ratio(b, 2, func() {
		if _, err := native.BuildJSON(vm, input1K); err != nil {
			b.Fatal(err)
		}
	}, func() {
		var v any
		if err := json.Unmarshal(input1K, &v); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkPreludeAgainstBare compares a run with a run in a runtime without
// the prelude.
func BenchmarkPreludeAgainstBare(b *testing.B) {
	code, bad := compile.Compile("module.exports = async (req) => ({ raw: req.args })", 1000)
	if bad != nil {
		b.Fatal(bad)
	}
	j := Job{Input: input1K, Limits: Limits{Timeout: time.Minute, MaxOutput: 1 << 20}}
	fresh := func() *Execution { return newExecution(code, nil, j.Limits) }
	ratio(b, 1.5, func() {
		if _, bad := fresh().do(j); bad != nil {
			b.Fatal(bad)
		}
	}, func() {
		if _, bad := fresh().perform(j); bad != nil {
			b.Fatal(bad)
		}
	})
}
