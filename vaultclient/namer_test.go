package vaultclient_test

import (
	"fmt"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// namer replaces random values in a result by names in the order of their
// appearance, so that the results of two vaults can be compared. Equal values
// get the same name, and different values get different names.
type namer struct {
	names map[string]string
	dest  string // URL of the destination, whose port is random too
}

func newNamer(dest *httptest.Server) *namer {
	return &namer{map[string]string{}, dest.URL}
}

var (
	randomUUID        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	randomFingerprint = regexp.MustCompile(`"fingerprint":"[^"]+"`)
)

// randomFields are fields of results whose text is random.
var randomFields = map[string]bool{"Key": true, "SessionKey": true, "Nonce": true, "WebhookSecret": true, "Fingerprint": true}

// kindOfKey matches the prefix of keys and secrets.
var kindOfKey = regexp.MustCompile(`^(?:key_[a-z]+_|whsec_)?`)

// name returns the name of a random text. A key keeps its prefix.
func (n *namer) name(text string) string {
	if text == "" {
		return ""
	}
	if n.names[text] == "" {
		n.names[text] = fmt.Sprintf("%srandom %d", kindOfKey.FindString(text), len(n.names)+1)
	}
	return n.names[text]
}

func (n *namer) uuid(text string) string {
	if n.names[text] == "" {
		n.names[text] = fmt.Sprintf("00000000-0000-0000-0000-%012d", len(n.names)+1)
	}
	return n.names[text]
}

func (n *namer) text(s string) string {
	s = strings.ReplaceAll(s, n.dest, "https://destination")
	s = strings.ReplaceAll(s, strings.TrimPrefix(n.dest, "https://"), "destination")
	s = randomUUID.ReplaceAllStringFunc(s, n.uuid)
	return randomFingerprint.ReplaceAllStringFunc(s, n.name)
}

// of returns a copy of a value with names for random values. Unexported
// fields are left out.
func (n *namer) of(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	if id, ok := v.Interface().(uuid.UUID); ok {
		if id == (uuid.UUID{}) {
			return v
		}
		out.Set(reflect.ValueOf(uuid.MustParse(n.uuid(id.String()))))
		return out
	}
	switch v.Kind() {
	case reflect.String:
		out.SetString(n.text(v.String()))
	case reflect.Pointer, reflect.Interface:
		return n.ofReference(v)
	case reflect.Slice:
		return n.ofSlice(v)
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		out = reflect.MakeMap(v.Type())
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			out.SetMapIndex(n.of(key), n.of(v.MapIndex(key)))
		}
	case reflect.Struct:
		return n.ofStruct(v)
	default:
		return v
	}
	return out
}

func (n *namer) ofReference(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return v
	}
	if v.Kind() == reflect.Interface {
		out := reflect.New(v.Type()).Elem()
		out.Set(n.of(v.Elem()))
		return out
	}
	out := reflect.New(v.Type().Elem())
	out.Elem().Set(n.of(v.Elem()))
	return out
}

func (n *namer) ofSlice(v reflect.Value) reflect.Value {
	if v.IsNil() {
		return v
	}
	if v.Type().Elem().Kind() == reflect.Uint8 {
		out := reflect.New(v.Type()).Elem()
		out.SetBytes([]byte(n.text(string(v.Bytes()))))
		return out
	}
	out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	for i := range v.Len() {
		out.Index(i).Set(n.of(v.Index(i)))
	}
	return out
}

func (n *namer) ofStruct(v reflect.Value) reflect.Value {
	if v.Type().PkgPath() == "time" {
		return v
	}
	out := reflect.New(v.Type()).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		switch {
		case !field.IsExported():
		case randomFields[field.Name] && field.Type.Kind() == reflect.String:
			out.Field(i).SetString(n.name(v.Field(i).String()))
		default:
			out.Field(i).Set(n.of(v.Field(i)))
		}
	}
	return out
}
