// Package deploy_test checks the files of this folder against the programs that they are
// for.
package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultmetrics"
	"github.com/seed-72ea4aab/vault/vaultprom"
)

// monitored returns /metrics of a program that embeds a vault with evidence, a sink and
// a key of a tenant, after requests that were served and refused.
func monitored(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	metrics := vaultprom.New(&vaultmetrics.Options{CertificateExpiry: func() time.Time { return time.Now().AddDate(1, 0, 0) }})
	own := vault.NewKey()
	runtime := jsruntime.New(nil)
	store := must.Get(sqlite.Open(t.Context(), ":memory:"))(t)
	v := must.Get(vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{
		Observer: metrics, Runtime: runtime, SweepEvery: -1, WorkEvery: -1,
		Sinks:    []vault.Sink{{Name: "file", Sender: vault.LogFile(filepath.Join(dir, "audit.jsonl"))}},
		Evidence: &vault.EvidenceConfig{Every: -1, Anchors: []vault.Anchor{vault.AnchorFile(filepath.Join(dir, "notes"))}},
		OpenKey:  func(context.Context, string) (vault.AEAD, error) { return own, nil },
	}))(t)
	t.Cleanup(func() { _ = v.Close() })
	metrics.Watch(v)
	registry := prometheus.NewRegistry() // with what the default registry of a program has
	registry.MustRegister(metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	must.Do(t, v.SetTenantKey(t.Context(), tenant.ID, "test:acme"))
	app := must.Get(v.Tenant(tenant.ID).CreateApplication(t.Context(), vault.ApplicationParams{Name: "Shop", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}}))(t)
	api := httpserver.Handler(v, &httpserver.Options{Observer: metrics})
	for _, call := range []struct {
		method, path, key, body string
		status                  int
	}{
		{"POST", "/tokens", app.Key, `{"type":"token","data":"x"}`, 201}, {"POST", "/tokens", app.Key, `{"type":"token","data":"x"}`, 201}, {"GET", "/tokens", app.Key, "", 403}, {"GET", "/tokens", "", "", 401},
	} {
		req := httptest.NewRequestWithContext(t.Context(), call.method, call.path, strings.NewReader(call.body))
		req.Header = http.Header{"Content-Type": {"application/json"}, "Svc-Api-Key": {call.key}, "Svc-Idempotency-Key": {"one"}}
		res := httptest.NewRecorder()
		api.ServeHTTP(res, req)
		must.Same(t, call.method+" "+call.path, call.status, res.Code)
	}
	must.Get(v.Checkpoint(t.Context()))(t)
	must.Get(v.VerifyLogs(t.Context(), nil))(t)
	must.Do(t, v.SendLogs(t.Context()))
	metrics.Start(t.Context(), vault.Event{Kind: vault.EventEcho, EntityID: app.ID})
	res := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`vault_echoes_total{application="` + app.ID.String() + `"} 1`, `vault_http_refusals_total{application="` + app.ID.String() + `",status="403"} 1`, `vault_http_refusals_total{application="",status="401"} 1`,
		`vault_jobs{state="waiting"} 0`, `vault_jobs{state="dead"} 0`, `vault_data_keys{state="primary"} 1`, `vault_tokens 1`, `vault_tenants 1`,
		`vault_db_connections_max{pool="`, `vault_db_wait_seconds_total{pool="`, `vault_master_key_failures_total{name="decrypt"} 0`,
		`vault_http_replays_total{method="POST",route="/tokens"} 1`, `vault_tenant_keys{state="ok"} 1`,
		"vault_evidence_size 4\n", "vault_evidence_lag_seconds 0\n", "vault_evidence_pending 0\n", "vault_evidence_suspended 0\n",
		"vault_evidence_verified 1\n", `vault_evidence_alarms_total{kind="tampered"} 0`, "vault_clock_ahead_seconds 0\n",
		`vault_evidence_anchor_failures_total{anchor="1"} 0`, `vault_sink_failures_total{sink="file"} 0`,
		`vault_sink_lag_seconds{sink="file"} 0`, `vault_sink_lag_entries{sink="file"} 0`,
		`vault_http_request_duration_seconds_bucket{method="GET",route="/tokens",le="16.384"} 2`,
		`vault_http_request_duration_seconds_bucket{method="GET",route="/tokens",le="+Inf"} 2`,
	} {
		must.Contain(t, "the metrics", res.Body.String(), want)
	}
	must.Get(os.Stat(filepath.Join(dir, "audit.jsonl")))(t)
	return res.Body.String()
}

// Every metric that the package describes has a figure.
func TestEveryMetricHasAFigure(t *testing.T) {
	t.Parallel()
	text := monitored(t)
	for _, f := range vaultmetrics.Families() {
		kind := map[vaultmetrics.Type]string{vaultmetrics.Counter: "counter", vaultmetrics.Gauge: "gauge", vaultmetrics.Durations: "histogram"}[f.Type]
		must.Contain(t, f.Name, text, "# HELP "+f.Name+" "+f.Help+"\n# TYPE "+f.Name+" "+kind+"\n")
	}
	described := len(vaultmetrics.Families())
	if n := strings.Count(text, "# TYPE vault_"); n != described {
		t.Errorf("%d metrics, of which %d are described", n, described)
	}
}

// alertRule is a rule of examples/deploy/alerts.yaml.
type alertRule struct {
	Alert, Expr string
	Annotations map[string]string
}

func readAlerts(t *testing.T) []alertRule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alertRule } }
	if err := yaml.Unmarshal(readDeploy(t, "alerts.yaml"), &file); err != nil || len(file.Groups) != 1 {
		t.Fatal(err, file)
	}
	return file.Groups[0].Rules
}

func readDeploy(t *testing.T, name string) []byte {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	return text
}

// panels returns the expressions of the dashboard, by panel.
func panels(t *testing.T) map[string]string {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	must.Do(t, json.Unmarshal(readDeploy(t, "grafana.json"), &board))
	all := map[string]string{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all["the panel "+p.Title+", "+target.RefID] = strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
		}
	}
	return all
}

// comparison is the end of an alert's expression. Without it the expression has a
// value while nothing is wrong.
var comparison = regexp.MustCompile(` (==|>|<) [0-9.]+$`)

// sample is a line of /metrics.
var sample = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? (\S+)$`)

// TestMonitoringHasFigures evaluates every panel of the dashboard and every alert
// with figures of a program that embeds a vault. Each must have a value, so that a metric which is
// renamed here cannot leave an alert behind that never fires.
func TestMonitoringHasFigures(t *testing.T) {
	t.Parallel()
	exprs := panels(t)
	for _, a := range readAlerts(t) {
		if !comparison.MatchString(a.Expr) {
			t.Errorf("%s compares nothing: %s", a.Alert, a.Expr)
		}
		exprs[a.Alert] = comparison.ReplaceAllString(a.Expr, "")
	}
	var file bytes.Buffer
	fmt.Fprintf(&file, "rule_files: [alerts.yaml]\ntests:\n- interval: 1m\n  input_series:\n")
	series := func(name, labels, value string) {
		labels = strings.TrimSuffix(`job="tokenvault",instance="a",`+labels, ",")
		fmt.Fprintf(&file, "  - {series: %s, values: %q}\n", strconv.Quote(name+"{"+labels+"}"), value+"+0x10")
	}
	series("up", "", "1") // Prometheus makes it
	for _, m := range sample.FindAllStringSubmatch(monitored(t), -1) {
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(m[0])
		}
		series(m[1], m[2], strconv.FormatFloat(value, 'f', -1, 64))
	}
	fmt.Fprintf(&file, "  promql_expr_test:\n")
	for _, name := range slices.Sorted(maps.Keys(exprs)) {
		fmt.Fprintf(&file, "  - {expr: %q, eval_time: 10m}\n", "absent(("+exprs[name]+"))")
	}
	promtool(t, file.Bytes(), "test", "rules", "test.yaml")
	promtool(t, nil, "check", "rules", "alerts.yaml")
}

// promtool runs promtool in a folder with the alerts and a test.
func promtool(t *testing.T, test []byte, args ...string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string][]byte{"alerts.yaml": readDeploy(t, "alerts.yaml"), "test.yaml": test} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool, of Debian's package prometheus: %v\n%s", err, out)
	}
}

// TestEveryAlertHasARunbook compares the alerts with the sections of
// docs/operations.md.
func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/operations.md"))(t)
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### (Vault\w+)$`).FindAllStringSubmatch(string(text), -1) {
		sections[m[1]] = true
	}
	for _, a := range readAlerts(t) {
		if !sections[a.Alert] || a.Annotations["runbook"] != "docs/operations.md#"+strings.ToLower(a.Alert) || a.Annotations["summary"] == "" {
			t.Errorf("%s has no section, or another runbook: %v", a.Alert, a.Annotations)
		}
		delete(sections, a.Alert)
	}
	if len(sections) > 0 {
		t.Errorf("sections without an alert: %v", sections)
	}
}

// TestKubernetesObjectsAreComplete checks that each document is an object, and that
// the pod is probed, confined, and gets its secrets from files.
func TestKubernetesObjectsAreComplete(t *testing.T) {
	t.Parallel()
	type object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   struct{ Name, Namespace string }
		Spec       map[string]any
	}
	kinds := map[string]object{}
	for _, text := range strings.Split(string(readDeploy(t, "kubernetes.yaml")), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil || o.APIVersion == "" || o.Metadata.Name == "" || o.Metadata.Namespace == "" {
			t.Errorf("%v in\n%s", err, text)
		}
		kinds[o.Kind] = o
	}
	for kind, words := range map[string][]string{
		"ServiceAccount": {}, "Service": {"selector", "targetPort"}, "PodDisruptionBudget": {"minAvailable", "selector"},
		"Deployment": {
			"startupProbe", "livenessProbe", "readinessProbe", "/readyz", "runAsNonRoot", "readOnlyRootFilesystem", "seccompProfile", "secretName",
			"terminationGracePeriodSeconds", "TOKENVAULT_KEY_FILE",
		},
	} {
		o, ok := kinds[kind]
		for _, word := range words {
			if text := fmt.Sprint(o.Spec); !ok || !strings.Contains(text, word) || strings.Contains(text, "secretKeyRef") {
				t.Errorf("%s has no %s, or a secret in the environment: %s", kind, word, text)
			}
		}
		if !ok {
			t.Errorf("no %s", kind)
		}
	}
}
