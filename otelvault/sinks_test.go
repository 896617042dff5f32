package otelvault_test

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// batches keeps what a log sink sends.
type batches struct {
	mu  sync.Mutex
	all [][]byte
}

func (b *batches) Send(_ context.Context, batch []byte, _ string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, bytes.Clone(batch))
	return nil
}

// The format otlp of log sinks is what the protobuf definitions of OpenTelemetry say:
// no field is unknown, and every field has its type. LogsData has the fields of
// ExportLogsServiceRequest.
func TestLogSinksSpeakOTLP(t *testing.T) {
	t.Parallel()
	sent := &batches{}
	v := vaulttest.Open(t, ":memory:", &vault.Config{
		Evidence: &vault.EvidenceConfig{Every: -1},
		Sinks:    []vault.Sink{{Name: "collector", Sender: sent, Format: vault.FormatOTLP, FromStart: true}},
	})
	c := v.Private.AsUser("jane@example.com").From("192.0.2.1")
	must.Get(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "é \"x\""}))(t)
	must.Get(v.Checkpoint(t.Context()))(t)
	must.Do(t, v.SendLogs(t.Context()))
	sent.mu.Lock()
	defer sent.mu.Unlock()
	entries, notes := 0, 0
	for _, batch := range sent.all {
		var data logspb.LogsData
		if err := protojson.Unmarshal(batch, &data); err != nil {
			t.Fatalf("%v\n%s", err, batch)
		}
		for _, r := range data.GetResourceLogs() {
			if text(r.GetResource().GetAttributes(), "service.name") != "vault" {
				t.Errorf("the resource is %v", r.GetResource())
			}
			for _, record := range r.GetScopeLogs()[0].GetLogRecords() {
				checkRecord(t, record)
				if record.GetEventName() == "vault.log.checkpoint" {
					notes++
				} else {
					entries++
				}
			}
		}
	}
	if page, err := v.Owner.ListLogs(t.Context(), vault.ListLogsParams{}); err != nil || entries != page.Pagination.TotalItems {
		t.Errorf("%d records (%v)", entries, err)
	}
	if notes == 0 {
		t.Error("no checkpoint")
	}
}

func checkRecord(t *testing.T, r *logspb.LogRecord) {
	t.Helper()
	if r.GetTimeUnixNano() == 0 || r.GetObservedTimeUnixNano() < r.GetTimeUnixNano() || r.GetSeverityNumber() != logspb.SeverityNumber_SEVERITY_NUMBER_INFO ||
		r.GetSeverityText() != "INFO" || r.GetBody().GetStringValue() == "" || r.GetEventName() == "" {
		t.Errorf("%v", r)
	}
	seen := map[string]bool{}
	for _, a := range r.GetAttributes() {
		if seen[a.GetKey()] || a.GetValue().GetStringValue() == "" {
			t.Errorf("the attribute %s is doubled or empty", a.GetKey())
		}
		seen[a.GetKey()] = true
	}
	if hash := text(r.GetAttributes(), "vault.log.leaf_hash"); hash != "" {
		must.Get(strconv.ParseInt(text(r.GetAttributes(), "vault.log.index"), 10, 64))(t)
	}
}

func text(all []*commonpb.KeyValue, key string) string {
	for _, a := range all {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}
