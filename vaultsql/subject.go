package vaultsql

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"

	"github.com/seed-72ea4aab/vault"
)

// subjectKey is the metadata key of a token with the value of the subject.
const subjectKey = "subject"

// subject is the field that identifies the person of a row.
type subject struct {
	name string
	row  reflect.Value
}

// text returns the value of the field as text.
func (s *subject) text() (string, error) {
	f, _ := s.row.Type().FieldByName(s.name)
	v, err := s.row.FieldByIndexErr(f.Index)
	for err == nil && v.Kind() == reflect.Pointer && !v.IsNil() && !v.Type().Implements(textMarshaler) {
		v = v.Elem()
	}
	if err != nil || v.IsZero() {
		return "", fmt.Errorf("%w: the field %s, which identifies the person, is empty; set it before Seal", vault.ErrInvalid, s.name)
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := m.MarshalText()
		if err != nil {
			return "", fmt.Errorf("%w: the field %s cannot be written as text", vault.ErrInvalid, s.name) // the error may show the value
		}
		return string(text), nil
	}
	switch {
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), nil
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), nil
	default:
		return v.String(), nil
	}
}

var textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()

// addSubject takes in the subject= of a step. All steps of a struct must agree.
func (p *plan) addSubject(t reflect.Type, s *step, path string) error {
	name := s.tag.subject
	if name == "" {
		return nil
	}
	f, ok := t.FieldByName(name)
	switch {
	case p.subject != "" && p.subject != name:
		return fieldErrorf(path, "the tag has subject=%s, but another field of the struct has subject=%s", name, p.subject)
	case !ok || !f.IsExported():
		return fieldErrorf(path, "the tag has subject=%s, but the struct has no exported field %s", name, name)
	case holds(f.Type):
		return fieldErrorf(path, "the tag has subject=%s, but %s is sealed; name the key of the row", name, name)
	case !identifies(f.Type):
		return fieldErrorf(path, "the tag has subject=%s, but %s is not a string, an integer or an encoding.TextMarshaler", name, name)
	}
	p.subject = name
	return nil
}

// identifies reports whether the values of a type can be a subject.
func identifies(t reflect.Type) bool {
	for {
		if t.Implements(textMarshaler) {
			return true
		}
		if t.Kind() != reflect.Pointer {
			break
		}
		t = t.Elem()
	}
	return t.Kind() == reflect.String || t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64
}
