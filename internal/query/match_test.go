package query

import (
	"testing"
	"time"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	doc := Doc{
		ID: "a", Type: "card", Data: []string{"4242", "42"}, Fingerprint: "2Fq",
		Containers: []string{"/pci/high/", "/x/"},
		Metadata:   map[string]string{"user": "JANE Doe", "empty": ""},
		CreatedBy:  someone, CreatedAt: utc("2026-01-02T10:30:15.123456Z"),
	}
	for q, want := range map[string]bool{
		"id:a": true, "id:A": false,
		"type:card": true, "type:bank": false,
		"data:42": true, "data:4242": true, "data:424": false,
		"fingerprint:2Fq": true, "fingerprint:2fq": false,
		"container:/pci/high/": true, "container:/x/": true, "container:/pci/": false,
		"container:/pci/*": true, "container:/pci/hi*": true, "container:/pci/high/*": true,
		"container:/y*": false, "container:*": true,
		`metadata.user:"jane doe"`: true, "metadata.user:jane": false, "metadata.User:x": false,
		`metadata.empty:""`: true, `metadata.none:""`: false,
		"created_by:" + someoneText: true, "modified_by:" + someoneText: false,
		"created_at:2026-01-02": true, "created_at:2026-01-01": false,
		"created_at:2026-01-02T10:30": true, "created_at:2026-01-02T10:30:15.123456Z": true,
		"created_at:2026-01-02T10:30:15.123457Z": false,
		"created_at:[2026-01-02 TO *]":           true, "created_at:{2026-01-02 TO *]": false,
		"created_at:[* TO 2026-01-02]": true, "created_at:[* TO 2026-01-02}": false,
		"created_at:[* TO *]": true, "modified_at:[* TO *]": false, "-modified_at:[* TO *]": true,
		"type:card id:a": true, "type:card id:b": false, "type:bank OR id:a": true, "type:bank OR id:b": false,
		"NOT type:card": false, "NOT type:bank": true, "type:card AND NOT (id:b OR id:c)": true,
	} {
		n, err := Parse(q)
		if err != nil {
			t.Errorf("Parse(%s): %v", q, err)
		} else if got := Match(n, &doc); got != want {
			t.Errorf("Match(%s) = %v", q, got)
		}
	}
}

func TestMatchModified(t *testing.T) {
	t.Parallel()
	doc := Doc{ModifiedBy: someone, ModifiedAt: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}
	for q, want := range map[string]bool{
		"modified_by:" + someoneText: true, "created_by:" + someoneText: false,
		"modified_at:2026-01-02": true, "modified_at:2026-01-01": false, "created_at:2026-01-02": false,
	} {
		n, err := Parse(q)
		if err != nil {
			t.Errorf("Parse(%s): %v", q, err)
		} else if got := Match(n, &doc); got != want {
			t.Errorf("Match(%s) = %v", q, got)
		}
	}
}

func TestMatchEdges(t *testing.T) {
	t.Parallel()
	var doc Doc
	if !Match(And{}, &doc) || Match(Or{}, &doc) || Match(nil, &doc) {
		t.Error("an empty And holds always, an empty Or and no node at all never")
	}
}
