package sinks

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/storage"
)

// The formats of batches.
const (
	Native = "native" // JSON lines, each an entry as GET /logs shows it
	OTLP   = "otlp"   // the JSON of an OTLP/HTTP request to /v1/logs
	OCSF   = "ocsf"   // JSON lines, each an event of the class API Activity
)

// encoder writes a batch.
type encoder func(s *Sinks, tenant uuid.UUID, rows []storage.Log) (body []byte, contentType string, err error)

func encoderOf(format string) (encoder, error) {
	switch format {
	case "", Native:
		return encodeNative, nil
	case OTLP:
		return encodeOTLP, nil
	case OCSF:
		return encodeOCSF, nil
	}
	return nil, errors.New("the format must be " + Native + ", " + OTLP + " or " + OCSF)
}

const (
	contentLines = "application/x-ndjson"
	contentJSON  = "application/json"
)

// lines encodes one value on each line.
func lines(rows []storage.Log, value func(*storage.Log) any) ([]byte, string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for i := range rows {
		if err := enc.Encode(value(&rows[i])); err != nil {
			return nil, "", err
		}
	}
	return out.Bytes(), contentLines, nil
}

func encodeNative(s *Sinks, tenant uuid.UUID, rows []storage.Log) ([]byte, string, error) {
	return lines(rows, func(row *storage.Log) any { return s.Native(tenant, row) })
}

// productName names the vault to destinations.
const productName = "vault"

// The messages of OTLP, as far as they are used: see ExportLogsServiceRequest of
// opentelemetry-proto. JSON has 64-bit integers as strings.
type (
	otlpRequest struct {
		ResourceLogs []otlpResourceLogs `json:"resourceLogs"`
	}
	otlpResourceLogs struct {
		Resource  otlpResource    `json:"resource"`
		ScopeLogs []otlpScopeLogs `json:"scopeLogs"`
	}
	otlpResource struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScopeLogs struct {
		Scope      otlpScope    `json:"scope"`
		LogRecords []otlpRecord `json:"logRecords"`
	}
	otlpScope struct {
		Name string `json:"name"`
	}
	otlpRecord struct {
		Time       string          `json:"timeUnixNano"`
		Observed   string          `json:"observedTimeUnixNano"`
		Severity   int             `json:"severityNumber"`
		Text       string          `json:"severityText"`
		Body       otlpValue       `json:"body"`
		Attributes []otlpAttribute `json:"attributes"`
		EventName  string          `json:"eventName"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String string `json:"stringValue"`
	}
)

// severityInfo is SEVERITY_NUMBER_INFO.
const severityInfo = 9

func encodeOTLP(s *Sinks, tenant uuid.UUID, rows []storage.Log) ([]byte, string, error) {
	observed := nanos(s.Vault.Now())
	records := make([]otlpRecord, len(rows))
	for i := range rows {
		row := &rows[i]
		records[i] = otlpRecord{
			Time: nanos(row.CreatedAt), Observed: observed, Severity: severityInfo, Text: "INFO",
			Body: otlpValue{row.Message}, EventName: "vault." + row.EntityType + "." + row.Operation,
			Attributes: attributes(
				"log.record.uid", uuid.UUID(row.ID).String(), "vault.operation", row.Operation,
				"vault.entity.type", row.EntityType, "vault.entity.id", row.EntityID,
				"vault.actor.type", row.ActorType, "vault.actor.id", idText(row.ActorID), "vault.actor.name", row.ActorName,
				"client.address", row.Origin,
			),
		}
	}
	body, err := json.Marshal(otlpRequest{[]otlpResourceLogs{{
		Resource:  otlpResource{attributes("service.name", productName, "vault.tenant.id", tenant.String())},
		ScopeLogs: []otlpScopeLogs{{Scope: otlpScope{"github.com/seed-72ea4aab/vault"}, LogRecords: records}},
	}}})
	return append(body, '\n'), contentJSON, err
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func idText(id storage.ID) string {
	if id.IsZero() {
		return ""
	}
	return uuid.UUID(id).String()
}

// attributes returns pairs of a key and a text. Empty texts are left out.
func attributes(pairs ...string) []otlpAttribute {
	all := []otlpAttribute{}
	for pair := range slices.Chunk(pairs, 2) {
		if key, text := pair[0], pair[len(pair)-1]; text != "" {
			all = append(all, otlpAttribute{key, otlpValue{text}})
		}
	}
	return all
}

// What OCSF says of the class API Activity.
const (
	ocsfVersion  = "1.3.0"
	ocsfCategory = 6 // Application Activity
	ocsfClass    = 6003
)

// ocsfActivities are the activities of the class. The rest is other.
var ocsfActivities = map[string]int{
	audit.Create: 1, audit.Read: 2, audit.Use: 2, audit.Update: 3, audit.Authorize: 3, audit.Delete: 4, audit.Expire: 4,
}

const ocsfOther = 99

type (
	ocsfEvent struct {
		ActivityID int            `json:"activity_id"`
		Activity   string         `json:"activity_name"`
		Category   int            `json:"category_uid"`
		Class      int            `json:"class_uid"`
		ClassName  string         `json:"class_name"`
		Type       int            `json:"type_uid"`
		Time       int64          `json:"time"` // milliseconds
		Severity   int            `json:"severity_id"`
		Status     int            `json:"status_id"`
		Message    string         `json:"message"`
		Metadata   ocsfMetadata   `json:"metadata"`
		Actor      ocsfActor      `json:"actor"`
		API        ocsfAPI        `json:"api"`
		Source     ocsfEndpoint   `json:"src_endpoint"`
		Resources  []ocsfResource `json:"resources"`
	}
	ocsfMetadata struct {
		Version string      `json:"version"`
		UID     string      `json:"uid"`
		Tenant  string      `json:"tenant_uid"`
		Log     string      `json:"log_name"`
		Product ocsfProduct `json:"product"`
	}
	ocsfProduct struct {
		Name   string `json:"name"`
		Vendor string `json:"vendor_name"`
	}
	ocsfActor struct {
		App  string    `json:"app_uid,omitempty"`
		User *ocsfUser `json:"user,omitempty"`
	}
	ocsfUser struct {
		UID  string `json:"uid"`
		Name string `json:"name,omitempty"`
	}
	ocsfAPI struct {
		Operation string      `json:"operation"`
		Service   ocsfService `json:"service"`
	}
	ocsfService struct {
		Name string `json:"name"`
	}
	ocsfEndpoint struct {
		IP   string `json:"ip,omitempty"`
		Name string `json:"name,omitempty"`
	}
	ocsfResource struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}
)

func encodeOCSF(_ *Sinks, tenant uuid.UUID, rows []storage.Log) ([]byte, string, error) {
	return lines(rows, func(row *storage.Log) any {
		activity, ok := ocsfActivities[row.Operation]
		if !ok {
			activity = ocsfOther
		}
		return ocsfEvent{
			ActivityID: activity, Activity: row.Operation, Category: ocsfCategory, Class: ocsfClass, ClassName: "API Activity",
			Type: ocsfClass*100 + activity, Time: row.CreatedAt.UnixMilli(), Severity: 1, Status: 1, Message: row.Message,
			Metadata: ocsfMetadata{
				Version: ocsfVersion, UID: uuid.UUID(row.ID).String(), Tenant: tenant.String(), Log: "audit",
				Product: ocsfProduct{productName, "seed-72ea4aab"},
			},
			Actor: ocsfActorOf(tenant, row), API: ocsfAPI{row.EntityType + "." + row.Operation, ocsfService{productName}},
			Source: ocsfSource(row.Origin), Resources: []ocsfResource{{row.EntityType, row.EntityID}},
		}
	})
}

func ocsfActorOf(tenant uuid.UUID, row *storage.Log) ocsfActor {
	switch {
	case row.ActorType == core.ActorUser:
		return ocsfActor{User: &ocsfUser{idText(row.ActorID), row.ActorName}}
	case !row.ActorID.IsZero():
		return ocsfActor{App: idText(row.ActorID)}
	}
	return ocsfActor{User: &ocsfUser{tenant.String(), "tenant"}}
}

// ocsfSource is where a call came from. The schema requires an endpoint, also of
// calls inside the process.
func ocsfSource(origin string) ocsfEndpoint {
	if _, err := netip.ParseAddr(origin); err == nil {
		return ocsfEndpoint{IP: origin}
	}
	if origin == "" {
		origin = productName
	}
	return ocsfEndpoint{Name: origin}
}
