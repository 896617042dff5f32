package sinks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/storage"
)

// The formats of batches.
const (
	Native = "native" // JSON lines, one entry each, as in GET /logs
	OTLP   = "otlp"   // JSON of an OTLP/HTTP request to /v1/logs
	OCSF   = "ocsf"   // JSON lines, one event of the class API Activity each
)

// item is an entry of the log, or a signed note over it.
type item struct {
	*storage.Log
	leaf *ledger.Located     // of an entry; nil outside any tree
	note *storage.Checkpoint // nil for an entry
}

// encoder encodes a batch. Notes belong to no tenant.
type encoder func(s *Sinks, tenant uuid.UUID, items []item) (body []byte, contentType string, err error)

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

// lines encodes one value per line.
func lines(items []item, value func(*item) (any, error)) ([]byte, string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for i := range items {
		v, err := value(&items[i])
		if err != nil {
			return nil, "", err
		}
		if err := enc.Encode(v); err != nil {
			return nil, "", err
		}
	}
	return out.Bytes(), contentLines, nil
}

// nativeNote is a signed note among the entries.
type nativeNote struct {
	Checkpoint string    `json:"checkpoint"` // the text of the note
	Size       int64     `json:"size"`       // of the tree
	CreatedAt  time.Time `json:"created_at"`
}

// nativeLeaf holds the additional fields of an entry in a tree.
type nativeLeaf struct {
	Index int64  `json:"index"`
	Hash  string `json:"leaf_hash"`
}

func encodeNative(s *Sinks, tenant uuid.UUID, items []item) ([]byte, string, error) {
	return lines(items, func(it *item) (any, error) {
		switch {
		case it.note != nil:
			return nativeNote{string(it.note.Note), it.note.Size, it.note.At.UTC()}, nil
		case it.leaf == nil:
			return s.Native(tenant, it.Log), nil
		}
		entry, err := json.Marshal(s.Native(tenant, it.Log))
		if err != nil {
			return nil, err
		}
		leaf, err := json.Marshal(nativeLeaf{it.leaf.Index, it.leaf.Leaf.String()})
		if err != nil {
			return nil, err
		}
		leaf[0] = ','
		return json.RawMessage(append(bytes.TrimSuffix(entry, []byte("}")), leaf...)), nil
	})
}

// productName is the name of the vault for destinations.
const productName = "vault"

// The part of the OTLP messages that the vault uses: see ExportLogsServiceRequest
// in opentelemetry-proto. Their JSON encodes 64-bit integers as strings.
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

func encodeOTLP(s *Sinks, tenant uuid.UUID, items []item) ([]byte, string, error) {
	observed := nanos(s.Vault.Now())
	records := make([]otlpRecord, len(items))
	for i := range items {
		r := &records[i]
		*r = otlpRecord{Observed: observed, Severity: severityInfo, Text: "INFO"}
		if note := items[i].note; note != nil {
			r.Time, r.Body, r.EventName = nanos(note.At), otlpValue{string(note.Note)}, "vault.log.checkpoint"
			r.Attributes = attributes("vault.log.size", strconv.FormatInt(note.Size, 10))
			continue
		}
		r.entry(&items[i])
	}
	body, err := json.Marshal(otlpRequest{[]otlpResourceLogs{{
		Resource:  otlpResource{attributes("service.name", productName, "vault.tenant.id", idText(storage.ID(tenant)))},
		ScopeLogs: []otlpScopeLogs{{Scope: otlpScope{"github.com/seed-72ea4aab/vault"}, LogRecords: records}},
	}}})
	return append(body, '\n'), contentJSON, err
}

// entry fills the record of a log entry.
func (r *otlpRecord) entry(it *item) {
	var index, hash string
	if it.leaf != nil {
		index, hash = strconv.FormatInt(it.leaf.Index, 10), it.leaf.Leaf.String()
	}
	r.Time, r.Body, r.EventName = nanos(it.CreatedAt), otlpValue{it.Message}, "vault."+it.EntityType+"."+it.Operation
	r.Attributes = attributes(
		"log.record.uid", uuid.UUID(it.ID).String(), "vault.operation", it.Operation,
		"vault.entity.type", it.EntityType, "vault.entity.id", it.EntityID,
		"vault.actor.type", it.ActorType, "vault.actor.id", idText(it.ActorID), "vault.actor.name", it.ActorName,
		"client.address", it.Origin, "vault.log.index", index, "vault.log.leaf_hash", hash,
	)
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func idText(id storage.ID) string {
	if id.IsZero() {
		return ""
	}
	return uuid.UUID(id).String()
}

// attributes converts pairs of key and text. It omits empty texts.
func attributes(pairs ...string) []otlpAttribute {
	all := []otlpAttribute{}
	for pair := range slices.Chunk(pairs, 2) {
		if key, text := pair[0], pair[len(pair)-1]; text != "" {
			all = append(all, otlpAttribute{key, otlpValue{text}})
		}
	}
	return all
}

// Constants of the OCSF class API Activity.
const (
	ocsfVersion  = "1.3.0"
	ocsfCategory = 6 // Application Activity
	ocsfClass    = 6003
	ocsfSuccess  = 1 // status of an event
	ocsfFailure  = 2
)

// ocsfNames are the names of the standard activities. The vault names other
// activities.
var ocsfNames = map[int]string{1: "Create", 2: "Read", 3: "Update", 4: "Delete"}

// ocsfActivities maps operations to activities of the class. All others are Other.
var ocsfActivities = map[string]int{
	audit.Create: 1, audit.Read: 2, audit.Use: 2, audit.Update: 3, audit.Authorize: 3, audit.Delete: 4, audit.Expire: 4,
}

const ocsfOther = 99

type (
	ocsfEvent struct {
		ActivityID   int            `json:"activity_id"`
		Activity     string         `json:"activity_name"`
		Category     int            `json:"category_uid"`
		CategoryName string         `json:"category_name"`
		Class        int            `json:"class_uid"`
		ClassName    string         `json:"class_name"`
		Type         int            `json:"type_uid"`
		Time         int64          `json:"time"` // milliseconds
		Severity     int            `json:"severity_id"`
		Status       int            `json:"status_id"`
		Message      string         `json:"message"`
		Metadata     ocsfMetadata   `json:"metadata"`
		Actor        ocsfActor      `json:"actor"`
		API          ocsfAPI        `json:"api"`
		Source       ocsfEndpoint   `json:"src_endpoint"`
		Resources    []ocsfResource `json:"resources"`
		// Unmapped holds fields that the schema does not have.
		Unmapped map[string]any `json:"unmapped,omitempty"`
	}
	ocsfMetadata struct {
		Version string      `json:"version"`
		UID     string      `json:"uid"`
		Tenant  string      `json:"tenant_uid,omitempty"`
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

func encodeOCSF(_ *Sinks, tenant uuid.UUID, items []item) ([]byte, string, error) {
	return lines(items, func(it *item) (any, error) {
		if it.note != nil {
			return ocsfNote(it.note), nil
		}
		activity, ok := ocsfActivities[it.Operation]
		if !ok {
			activity = ocsfOther
		}
		e := newOCSF(activity, it.Operation, it.CreatedAt, uuid.UUID(it.ID).String())
		e.Metadata.Tenant, e.Message, e.API.Operation = tenant.String(), it.Message, it.EntityType+"."+it.Operation
		e.Actor, e.Source = ocsfActorOf(tenant, it.Log), ocsfSource(it.Origin)
		e.Resources = []ocsfResource{{it.EntityType, it.EntityID}}
		if it.Operation == audit.Denied {
			e.Status = ocsfFailure
		}
		if it.leaf != nil {
			e.Unmapped = map[string]any{"index": it.leaf.Index, "leaf_hash": it.leaf.Leaf.String()}
		}
		return e, nil
	})
}

// newOCSF returns an event with the fields that all events share.
func newOCSF(activity int, name string, at time.Time, uid string) *ocsfEvent {
	return &ocsfEvent{
		ActivityID: activity, Activity: cmp.Or(ocsfNames[activity], name), Category: ocsfCategory, CategoryName: "Application Activity",
		Class: ocsfClass, ClassName: "API Activity", Type: ocsfClass*100 + activity, Time: at.UnixMilli(), Severity: 1, Status: ocsfSuccess,
		Metadata: ocsfMetadata{Version: ocsfVersion, UID: uid, Log: "audit", Product: ocsfProduct{productName, "seed-72ea4aab"}},
		API:      ocsfAPI{Service: ocsfService{productName}},
	}
}

// ocsfNote returns the event of a signed note. Its actor is the vault itself.
func ocsfNote(note *storage.Checkpoint) *ocsfEvent {
	size := strconv.FormatInt(note.Size, 10)
	e := newOCSF(ocsfOther, "checkpoint", note.At, "checkpoint-"+size)
	e.Message, e.API.Operation, e.Source = "Checkpoint signed", "log.checkpoint", ocsfSource("")
	e.Actor.User = &ocsfUser{UID: productName}
	e.Resources = []ocsfResource{{"checkpoint", size}}
	e.Unmapped = map[string]any{"checkpoint": string(note.Note), "size": note.Size}
	return e
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

// ocsfSource returns the origin of a call. The schema requires an endpoint, even
// for calls inside the process.
func ocsfSource(origin string) ocsfEndpoint {
	if _, err := netip.ParseAddr(origin); err == nil {
		return ocsfEndpoint{IP: origin}
	}
	if origin == "" {
		origin = productName
	}
	return ocsfEndpoint{Name: origin}
}
