package sinks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/ledger"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
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

func encodeNative(s *Sinks, tenant uuid.UUID, items []item) ([]byte, string, error) {
	return lines(items, func(it *item) (any, error) {
		switch {
		case it.note != nil:
			return object{"checkpoint": string(it.note.Note), "size": it.note.Size, "created_at": it.note.At.UTC()}, nil
		case it.leaf == nil:
			return s.Native(tenant, it.Log), nil
		}
		entry, err := json.Marshal(s.Native(tenant, it.Log))
		if err != nil {
			return nil, err
		}
		leaf := fmt.Appendf(bytes.TrimSuffix(entry, []byte("}")), `,"index":%d,"leaf_hash":%q}`, it.leaf.Index, it.leaf.Leaf)
		return json.RawMessage(leaf), nil
	})
}

// productName is the name of the vault for destinations.
const productName = "vault"

// object is a JSON object of a format.
type object map[string]any

// severityInfo is SEVERITY_NUMBER_INFO.
const severityInfo = 9

// encodeOTLP encodes an ExportLogsServiceRequest of opentelemetry-proto. Its JSON
// has 64-bit integers as strings.
func encodeOTLP(s *Sinks, tenant uuid.UUID, items []item) ([]byte, string, error) {
	observed := nanos(s.Vault.Now())
	records := make([]object, len(items))
	for i := range items {
		records[i] = items[i].otlp()
		records[i]["observedTimeUnixNano"] = observed
		records[i]["severityNumber"], records[i]["severityText"] = severityInfo, "INFO"
	}
	body, err := json.Marshal(object{"resourceLogs": []object{{
		"resource":  object{"attributes": attributes("service.name", productName, "vault.tenant.id", idText(storage.ID(tenant)))},
		"scopeLogs": []object{{"scope": object{"name": "github.com/seed-72ea4aab/vault"}, "logRecords": records}},
	}}})
	return append(body, '\n'), contentJSON, err
}

// otlp returns the fields of a record that depend on the entry or the note.
func (it *item) otlp() object {
	if note := it.note; note != nil {
		return object{
			"timeUnixNano": nanos(note.At), "body": object{"stringValue": string(note.Note)}, "eventName": "vault.log.checkpoint",
			"attributes": attributes("vault.log.size", strconv.FormatInt(note.Size, 10)),
		}
	}
	var index, hash string
	if it.leaf != nil {
		index, hash = strconv.FormatInt(it.leaf.Index, 10), it.leaf.Leaf.String()
	}
	return object{
		"timeUnixNano": nanos(it.CreatedAt), "body": object{"stringValue": it.Message}, "eventName": "vault." + it.EntityType + "." + it.Operation,
		"attributes": attributes(
			"log.record.uid", uuid.UUID(it.ID).String(), "vault.operation", it.Operation,
			"vault.entity.type", it.EntityType, "vault.entity.id", it.EntityID,
			"vault.actor.type", it.ActorType, "vault.actor.id", idText(it.ActorID), "vault.actor.name", it.ActorName,
			"client.address", it.Origin, "vault.log.index", index, "vault.log.leaf_hash", hash,
		),
	}
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func idText(id storage.ID) string {
	if id.IsZero() {
		return ""
	}
	return uuid.UUID(id).String()
}

// attributes converts pairs of key and text. It omits empty texts.
func attributes(pairs ...string) []object {
	all := []object{}
	for pair := range slices.Chunk(pairs, 2) {
		if key, text := pair[0], pair[len(pair)-1]; text != "" {
			all = append(all, object{"key": key, "value": object{"stringValue": text}})
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

func encodeOCSF(_ *Sinks, tenant uuid.UUID, items []item) ([]byte, string, error) {
	return lines(items, func(it *item) (any, error) {
		if it.note != nil {
			return ocsfNote(it.note), nil
		}
		activity, ok := ocsfActivities[it.Operation]
		if !ok {
			activity = ocsfOther
		}
		e := newOCSF(activity, it.Operation, it.CreatedAt, object{"uid": uuid.UUID(it.ID).String(), "tenant_uid": tenant.String()})
		e["message"], e["api"] = it.Message, ocsfAPI(it.EntityType+"."+it.Operation)
		e["actor"], e["src_endpoint"] = ocsfActor(tenant, it.Log), ocsfSource(it.Origin)
		e["resources"] = []object{{"type": it.EntityType, "uid": it.EntityID}}
		if it.Operation == audit.Denied {
			e["status_id"] = ocsfFailure
		}
		if it.leaf != nil { // the schema has no fields for it
			e["unmapped"] = object{"index": it.leaf.Index, "leaf_hash": it.leaf.Leaf.String()}
		}
		return e, nil
	})
}

// newOCSF returns an event with the fields that all events share.
func newOCSF(activity int, name string, at time.Time, metadata object) object {
	metadata["version"], metadata["log_name"] = ocsfVersion, "audit"
	metadata["product"] = object{"name": productName, "vendor_name": "seed-72ea4aab"}
	return object{
		"activity_id": activity, "activity_name": cmp.Or(ocsfNames[activity], name), "metadata": metadata,
		"category_uid": ocsfCategory, "category_name": "Application Activity", "class_uid": ocsfClass, "class_name": "API Activity",
		"type_uid": ocsfClass*100 + activity, "time": at.UnixMilli(), "severity_id": 1, "status_id": ocsfSuccess,
	}
}

func ocsfAPI(operation string) object {
	return object{"operation": operation, "service": object{"name": productName}}
}

// ocsfNote returns the event of a signed note. Its actor is the vault itself.
func ocsfNote(note *storage.Checkpoint) object {
	size := strconv.FormatInt(note.Size, 10)
	e := newOCSF(ocsfOther, "checkpoint", note.At, object{"uid": "checkpoint-" + size})
	e["message"], e["api"], e["src_endpoint"] = "Checkpoint signed", ocsfAPI("log.checkpoint"), ocsfSource("")
	e["actor"] = object{"user": object{"uid": productName}}
	e["resources"] = []object{{"type": "checkpoint", "uid": size}}
	e["unmapped"] = object{"checkpoint": string(note.Note), "size": note.Size}
	return e
}

func ocsfActor(tenant uuid.UUID, row *storage.Log) object {
	switch {
	case row.ActorType == core.ActorUser && row.ActorName == "":
		return object{"user": object{"uid": idText(row.ActorID)}}
	case row.ActorType == core.ActorUser:
		return object{"user": object{"uid": idText(row.ActorID), "name": row.ActorName}}
	case !row.ActorID.IsZero():
		return object{"app_uid": idText(row.ActorID)}
	}
	return object{"user": object{"uid": tenant.String(), "name": "tenant"}}
}

// ocsfSource returns the origin of a call. The schema requires an endpoint, even
// for calls inside the process.
func ocsfSource(origin string) object {
	if _, err := netip.ParseAddr(origin); err == nil {
		return object{"ip": origin}
	}
	return object{"name": cmp.Or(origin, productName)}
}
