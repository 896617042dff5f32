package console

import (
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// factGroup is a part of the page about the program and its settings.
type factGroup struct {
	Title string
	Facts []fact
}

type fact struct{ Name, Value string }

// system shows the settings and the health of the program.
func (q *request) system() error {
	s, err := q.vault.Info(q.r.Context())
	if err != nil {
		return err
	}
	b := []factGroup{
		{"Program", programFacts()},
		{"Settings", settingFacts(&s.Config)},
		{"Egress policy", egressFacts(&s.Config.Egress)},
		{"Database", databaseFacts(s)},
		{"Reactor and proxy code", q.runFacts(s)},
		{"Process", processFacts()},
	}
	return q.show(http.StatusOK, "system", q.view("system", "System", nil, b))
}

// started is roughly when the program started.
var started = time.Now()

func programFacts() []fact {
	version, revision := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, d := range info.Deps {
			if d.Path == "github.com/seed-72ea4aab/vault" {
				version = d.Version
			}
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	facts := []fact{{"Version", version}, {"Go", runtime.Version() + " on " + runtime.GOOS + "/" + runtime.GOARCH}, {"Running for", time.Since(started).Round(time.Second).String()}}
	if revision != "" {
		facts = append(facts, fact{"Revision", revision})
	}
	return facts
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// every formats the interval of a background task.
func every(d time.Duration) string {
	if d < 0 {
		return "not automatically"
	}
	return "every " + d.String()
}

func orNone(d time.Duration, none string) string {
	if d == 0 {
		return none
	}
	return d.String()
}

func settingFacts(c *vault.Config) []fact {
	return []fact{
		{"Deletes expired data", every(c.SweepEvery)}, {"Looks for jobs", every(c.WorkEvery)},
		{"Strict read logs", yesNo(c.StrictReadLogs)}, {"Log retention", orNone(c.LogRetention, "until the tenant is deleted")},
		{"Maximum session length", orNone(c.MaxSessionLife, "no limit")}, {"Maximum request body", bytesText(uint64(max(c.MaxBytes, 0)))},
		{"Maximum tokens per request", number(c.MaxTokens)}, {"Maximum encrypted data per page", bytesText(uint64(max(c.MaxPageBytes, 0)))},
		{"Memory for requests", bytesText(uint64(max(c.MaxMemory, 0)))}, {"Proxy timeout", c.ProxyTimeout.String()},
		{"Asks whether the master key may be used", every(c.KeyAge)},
	}
}

func egressFacts(p *vault.EgressPolicy) []fact {
	ports := "all"
	if len(p.Ports) > 0 {
		ports = strings.Trim(fmt.Sprint(p.Ports), "[]")
	}
	conns := "100"
	if p.MaxConnsPerTenant > 0 {
		conns = number(p.MaxConnsPerTenant)
	}
	list := func(n int, text string) string {
		if n == 0 {
			return "none"
		}
		return strings.Trim(text, "[]")
	}
	return []fact{
		{"Plain HTTP allowed", yesNo(p.AllowHTTP)}, {"Private addresses allowed", yesNo(p.AllowPrivate)},
		{"Other allowed networks", list(len(p.AllowPrefixes), fmt.Sprint(p.AllowPrefixes))}, {"Blocked networks", list(len(p.DenyPrefixes), fmt.Sprint(p.DenyPrefixes))},
		{"Ports", ports}, {"Custom certificate authorities", yesNo(p.RootCAs != nil)}, {"Proxy from environment variables", yesNo(p.UseEnvironmentProxy)},
		{"Concurrent requests per tenant", conns},
	}
}

func databaseFacts(s *vault.Info) []fact {
	versions := "unknown"
	if len(s.Migrations) > 0 {
		versions = strings.Trim(fmt.Sprint(s.Migrations), "[]")
	}
	facts := []fact{{"Migrations", versions}}
	for _, name := range slices.Sorted(maps.Keys(s.Pools)) {
		p := s.Pools[name]
		most := "unlimited"
		if p.MaxOpenConnections > 0 {
			most = number(p.MaxOpenConnections)
		}
		facts = append(facts, fact{"Connections, " + name, fmt.Sprintf("%d in use, %d idle, maximum %s, %s waits", p.InUse, p.Idle, most, number(int(p.WaitCount)))})
	}
	return facts
}

func (q *request) runFacts(s *vault.Info) []fact {
	facts := []fact{{"JavaScript runtime", yesNo(s.Config.Runtime != nil)}}
	if w := s.Workers; w != nil {
		facts = append(facts, fact{"Workers", fmt.Sprintf("%d of %d busy, %d idle, %d spare, %s started so far", w.Busy, w.Workers, w.Idle, w.Spare, number(w.Started))},
			fact{"Waiting for a worker", number(w.Waiting)})
	}
	if q.opts.Recorder == nil {
		return facts
	}
	hour, day := q.opts.Recorder.figures(lastHour), q.opts.Recorder.figures(lastDay)
	return append(facts, fact{"Running now", number(hour.Running)},
		fact{"Runs in the last hour", fmt.Sprintf("%s, %s failed", number(hour.Runs), number(hour.RunErrors))},
		fact{"Runs in the last day", fmt.Sprintf("%s, %s failed", number(day.Runs), number(day.RunErrors))})
}

func processFacts() []fact {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(samples)
	value := func(i int) uint64 {
		if samples[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
		return samples[i].Value.Uint64()
	}
	return []fact{
		{"Goroutines", number(runtime.NumGoroutine())}, {"Heap", bytesText(value(0))}, {"Total memory", bytesText(value(1))},
		{"Garbage collections", number(int(value(2)))}, {"CPUs", number(runtime.GOMAXPROCS(0))},
	}
}
