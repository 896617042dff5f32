package sinks_test

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// fact is the part of the published schema of OCSF 1.3.0 that the vault uses for a
// class or an object. It has the types of attributes, the required attributes, and
// the groups of which at least one attribute is required.
type fact struct {
	types    map[string]string // the name of an object, or text, integer, time, list of an object, or any
	required []string
	oneOf    []string
}

var ocsf = map[string]fact{
	"api_activity": {
		types: map[string]string{
			"activity_id": "integer", "activity_name": "text", "category_uid": "integer", "category_name": "text", "class_uid": "integer",
			"class_name": "text", "type_uid": "integer", "time": "time", "severity_id": "integer", "status_id": "integer", "message": "text",
			"metadata": "metadata", "actor": "actor", "api": "api", "src_endpoint": "network_endpoint", "resources": "list of resource_details", "unmapped": "any",
		},
		required: []string{"activity_id", "actor", "api", "category_uid", "class_uid", "metadata", "severity_id", "src_endpoint", "time", "type_uid"},
	},
	"metadata": {
		types:    map[string]string{"version": "text", "uid": "text", "tenant_uid": "text", "log_name": "text", "product": "product"},
		required: []string{"product", "version"},
	},
	"product":          {types: map[string]string{"name": "text", "vendor_name": "text"}, required: []string{"vendor_name"}},
	"actor":            {types: map[string]string{"app_uid": "text", "user": "user"}, oneOf: []string{"app_uid", "user"}},
	"user":             {types: map[string]string{"uid": "text", "name": "text"}, oneOf: []string{"uid", "name"}},
	"api":              {types: map[string]string{"operation": "text", "service": "service"}, required: []string{"operation"}},
	"service":          {types: map[string]string{"name": "text"}, oneOf: []string{"name"}},
	"network_endpoint": {types: map[string]string{"ip": "text", "name": "text"}, oneOf: []string{"ip", "name"}},
	"resource_details": {types: map[string]string{"type": "text", "uid": "text"}, oneOf: []string{"uid"}},
}

// validate compares a value with its type in the schema.
func validate(t *testing.T, path, typ string, value any) {
	t.Helper()
	if of, ok := strings.CutPrefix(typ, "list of "); ok {
		list, _ := value.([]any)
		if len(list) == 0 {
			t.Errorf("%s is no list", path)
		}
		for _, item := range list {
			validate(t, path, of, item)
		}
		return
	}
	good := true
	switch typ {
	case "any":
	case "text":
		s, ok := value.(string)
		good = ok && s != ""
	case "integer", "time":
		n, ok := value.(float64)
		good = ok && n == math.Trunc(n) && (typ != "time" || n > 1e12 && n < 1e13) // milliseconds
	default:
		validateObject(t, path, ocsf[typ], value)
	}
	if !good {
		t.Errorf("%s is %v, want %s", path, value, typ)
	}
}

func validateObject(t *testing.T, path string, f fact, value any) {
	t.Helper()
	object, ok := value.(map[string]any)
	if !ok {
		t.Errorf("%s is no object", path)
	}
	has := func(name string) bool { return object[name] != nil }
	for _, name := range f.required {
		if !has(name) {
			t.Errorf("%s has no %s, which is required", path, name)
		}
	}
	if len(f.oneOf) > 0 && !slices.ContainsFunc(f.oneOf, has) {
		t.Errorf("%s has none of %v", path, f.oneOf)
	}
	for name, v := range object {
		typ, known := f.types[name]
		if !known {
			t.Errorf("%s.%s is not in the schema", path, name)
			continue
		}
		validate(t, path+"."+name, typ, v)
	}
}

// Every event matches the schema, including the events of signed checkpoints.
func TestOCSFEvents(t *testing.T) {
	t.Parallel()
	w, sent := newInstallation(t, memory(t)), &destination[map[string]any]{}
	v := w.evident(t, sent, vault.FormatOCSF)
	c := v.Tenant(w.acme.TenantID())
	app := must.Get(c.CreateApplication(t.Context(), vault.ApplicationParams{Name: "App", Type: vault.ApplicationPrivate, Permissions: []vault.Permission{"token:create", "token:read", "token:delete"}}))(t)
	as := must.Get(c.As(t.Context(), app.ID))(t)
	for _, who := range []*vault.Client{as, as.From("192.0.2.1"), c.AsUser("jane").From("a host").Client} {
		token := must.Get(who.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
		must.Get(who.GetToken(t.Context(), token.ID))(t)
		must.Do(t, who.DeleteToken(t.Context(), token.ID))
	}
	entries := map[string]vault.LogEntry{}
	for e, err := range c.AllLogs(t.Context(), vault.ListLogsParams{}) {
		must.Do(t, err)
		entries[e.ID.String()] = *e
	}
	checkpoint(t, v)
	must.Do(t, v.SendLogs(t.Context()))
	sent.mu.Lock()
	defer sent.mu.Unlock()
	for _, event := range sent.got {
		validate(t, "event", "api_activity", event)
		uid, _ := at(event, "metadata.uid").(string)
		if entry, ok := entries[uid]; ok {
			sameAsEntry(t, event, entry)
			delete(entries, uid)
		} else if event["activity_id"] != 99.0 || at(event, "unmapped.checkpoint") == nil {
			t.Errorf("an event that is neither an entry nor a checkpoint: %v", event)
		}
	}
	if len(entries) > 0 {
		t.Errorf("%d entries have no event", len(entries))
	}
}

// sameAsEntry checks that an event matches its entry.
func sameAsEntry(t *testing.T, event map[string]any, entry vault.LogEntry) {
	t.Helper()
	activity := map[vault.LogOperation]float64{"create": 1, "read": 2, "update": 3, "delete": 4}[entry.Operation]
	name := map[float64]string{1: "Create", 2: "Read", 3: "Update", 4: "Delete"}[activity]
	want := map[string]any{
		"category_uid": 6.0, "class_uid": 6003.0, "activity_id": activity, "activity_name": name, "type_uid": 600300 + activity,
		"severity_id": 1.0, "status_id": 1.0, "time": float64(entry.CreatedAt.UnixMilli()), "message": entry.Message, "metadata.version": "1.3.0",
		"metadata.tenant_uid": entry.TenantID.String(), "api.operation": entry.EntityType + "." + string(entry.Operation),
		"actor.user.uid": entry.TenantID.String(), "actor.app_uid": nil, "src_endpoint.ip": nil, "src_endpoint.name": "vault",
	}
	switch entry.ActorType {
	case vault.ActorApplication:
		want["actor.app_uid"], want["actor.user.uid"] = entry.ActorID.String(), nil
	case vault.ActorUser:
		want["actor.user.uid"], want["actor.user.name"] = entry.ActorID.String(), "jane"
	}
	if _, err := netip.ParseAddr(entry.Origin); err == nil {
		want["src_endpoint.ip"], want["src_endpoint.name"] = entry.Origin, nil
	} else if entry.Origin != "" {
		want["src_endpoint.name"] = entry.Origin
	}
	for path, value := range want {
		if got := at(event, path); got != value {
			t.Errorf("%s is %v, want %v", path, got, value)
		}
	}
	if at(event, "unmapped.leaf_hash") == nil && entry.EntityType == "token" {
		t.Error("an event without a leaf")
	}
}
