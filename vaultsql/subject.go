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
	row  reflect.Value // invalid if there are several rows
}

// text returns the value of the field as text.
func (s *subject) text() (string, error) {
	if !s.row.IsValid() {
		return "", fmt.Errorf("%w: the field is given alone after several rows; give it after the row of its person", vault.ErrInvalid)
	}
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

// fieldKey is the metadata key of a token with the name of its field.
const fieldKey = "field"

// metadata returns the metadata of the token, or nil for none.
func (f *field) metadata() (map[string]string, error) {
	all := map[string]string{}
	if name := f.scope(); name != "" {
		all[fieldKey] = name
	}
	if f.subject != nil {
		text, err := f.subject.text()
		if err != nil {
			return nil, err
		}
		all[subjectKey] = text
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
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
