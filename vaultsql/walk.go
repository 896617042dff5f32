package vaultsql

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/seed-72ea4aab/vault"
)

// field is a sealed field found in a dst.
type field struct {
	column
	tag     *tag
	in      *trail
	name    string
	subject *subject // nil if no tag of the row names one
}

// path names the field in errors.
func (f *field) path() string {
	if f.name == "" {
		return f.in.String()
	}
	return f.in.String() + "." + f.name
}

// place returns the path of the field without the positions in lists and maps.
func (f *field) place() string {
	place := f.name
	for at := f.in; at != nil; at = at.in {
		step := at.step
		if strings.HasPrefix(step, "[") {
			step = "[]"
		}
		place = step + "." + place
	}
	return place
}

// scope returns the name of the field in the metadata of its tokens: field= of the
// tag, or the names of the struct and the field, such as Customer.Name. It is empty
// for a field that is not in a struct.
func (f *field) scope() string {
	switch {
	case f.tag.field != "":
		return f.tag.field
	case f.name == "":
		return f.in.scope
	default:
		return f.in.scope + "." + f.name
	}
}

// typ returns the type of the field's tokens.
func (f *field) typ() vault.TokenType {
	switch {
	case f.tag.typ != "":
		return f.tag.typ
	case f.valueType() == cardType:
		return vault.TypeCard
	case f.valueType() == bankType:
		return vault.TypeBank
	default:
		return vault.TypeGeneric
	}
}

// wrap adds the name of the field to an error.
func (f *field) wrap(err error) error { return &FieldError{Field: f.path(), Err: err} }

// trail is the path to a struct inside a dst.
type trail struct {
	in    *trail
	step  string // ".Address", "[3]", or the name of the outermost type
	scope string // names of the innermost type that has a name, and of fields in it
}

// element is the path to an element of a list or a map.
func (p *trail) element(step string) *trail { return &trail{p, "[" + step + "]", p.scope} }

// named returns the path to a struct. The scope of its fields begins with the name
// of its type, if the type has a name.
func (p *trail) named(t reflect.Type) *trail {
	if t.Name() == "" && p.scope != "" {
		return p
	}
	return &trail{p.in, p.step, typeName(t)}
}

func (p *trail) String() string {
	if p == nil {
		return ""
	}
	return p.in.String() + p.step
}

// walker collects fields.
type walker struct {
	fields  []*field
	seen    map[target]*field // finds cycles of pointers, and fields given twice; nil for a struct
	subject *subject          // of the row that is being walked
	owner   *subject          // of the last row, for fields that are given alone
}

// target is the target of a pointer. It has a type because a struct and its first
// field have the same address.
type target struct {
	address uintptr
	typ     reflect.Type
}

// first reports whether the walker sees a target for the first time.
func (w *walker) first(address uintptr, t reflect.Type) bool {
	key := target{address, t}
	if _, seen := w.seen[key]; seen {
		return false
	}
	w.seen[key] = nil
	return true
}

// add adds a field. A field that was given alone and is in a struct too has the tag
// of the struct.
func (w *walker) add(v reflect.Value, f *field) {
	at := v.Addr()
	f.column, f.subject = at.Interface().(column), w.subject
	key := target{at.Pointer(), v.Type()}
	switch known := w.seen[key]; {
	case known == nil:
		w.seen[key] = f
		w.fields = append(w.fields, f)
	case known.in.scope == "":
		*known = *f
	}
}

// collect finds the sealed fields of all dst, each once.
func collect(dst []any) ([]*field, error) {
	w := &walker{seen: map[target]*field{}}
	for _, d := range dst {
		if err := w.root(reflect.ValueOf(d)); err != nil {
			return nil, err
		}
	}
	return w.fields, nil
}

// root checks and walks one dst.
func (w *walker) root(v reflect.Value) error {
	if !v.IsValid() {
		return errors.New("vaultsql: nil was given; give a pointer to a struct, or a slice of structs")
	}
	base := baseOf(v.Type())
	name := typeName(base)
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return fmt.Errorf("vaultsql: a nil *%s was given", name)
	case v.Kind() == reflect.Struct || v.Kind() == reflect.Array:
		return fmt.Errorf("vaultsql: a %s was given by value; give a pointer to it", name)
	case base.Kind() != reflect.Interface && !holds(base):
		return fmt.Errorf("vaultsql: %s has no sealed fields", name)
	}
	if isColumn(base) {
		defer func(outer *subject) { w.subject = outer }(w.subject)
		w.subject = w.owner
	} else {
		w.owner = nil
	}
	return w.walk(v, &trail{step: name}, &tag{})
}

// baseOf strips pointers, slices, arrays and maps from a type.
func baseOf(t reflect.Type) reflect.Type {
	for k := t.Kind(); k == reflect.Pointer || k == reflect.Slice || k == reflect.Array || k == reflect.Map; k = t.Kind() {
		t = t.Elem()
	}
	return t
}

// typeName is the name of a type in errors.
func typeName(t reflect.Type) string {
	if isColumn(t) {
		return "vaultsql.Of"
	}
	if t.Name() == "" {
		return t.Kind().String()
	}
	return t.Name()
}

// walk collects the fields of a value. The tag belongs to the struct field that
// contains the value.
func (w *walker) walk(v reflect.Value, at *trail, t *tag) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || !isColumn(v.Type().Elem()) && !w.first(v.Pointer(), v.Type().Elem()) {
			return nil
		}
		return w.walk(v.Elem(), at, t)
	case reflect.Interface:
		return w.dynamic(v, at)
	case reflect.Slice, reflect.Array:
		return w.elements(v, at, t)
	case reflect.Map:
		return w.values(v, at, t)
	case reflect.Struct:
		if isColumn(v.Type()) {
			w.add(v, &field{tag: t, in: at})
			return nil
		}
		return w.structure(v, at)
	default:
		return nil
	}
}

// dynamic walks an element of a slice of interfaces.
func (w *walker) dynamic(v reflect.Value, at *trail) error {
	if v.IsNil() {
		return fmt.Errorf("vaultsql: %s is nil", at)
	}
	return w.root(v.Elem())
}

func (w *walker) elements(v reflect.Value, at *trail, t *tag) error {
	if !holds(v.Type()) && v.Type().Elem().Kind() != reflect.Interface {
		return nil
	}
	for i := range v.Len() {
		here, e := at.element(strconv.Itoa(i)), v.Index(i)
		if e.Kind() == reflect.Pointer && e.IsNil() {
			return fmt.Errorf("vaultsql: %s is nil", here)
		}
		if err := w.walk(e, here, t); err != nil {
			return err
		}
	}
	return nil
}

// values walks a map. Go cannot change map values in place, so they must be
// pointers, slices or maps.
func (w *walker) values(v reflect.Value, at *trail, t *tag) error {
	if !holds(v.Type()) {
		return nil
	}
	if k := v.Type().Elem().Kind(); k != reflect.Pointer && k != reflect.Slice && k != reflect.Map {
		return fieldErrorf(at.String(), "values of a map cannot be changed in place; use a map of pointers")
	}
	for _, key := range v.MapKeys() {
		if err := w.walk(v.MapIndex(key), at.element(typeName(key.Type())), t); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) structure(v reflect.Value, at *trail) error {
	p, err := planOf(v.Type(), at.String())
	if err != nil {
		return err
	}
	at = at.named(v.Type())
	if p.subject != "" {
		defer func(outer *subject) { w.subject = outer }(w.subject)
		w.own(&subject{p.subject, v})
	}
	for i := range p.steps {
		s := &p.steps[i]
		f := v.Field(s.index)
		if s.direct {
			w.add(f, &field{tag: s.tag, in: at, name: s.name})
			continue
		}
		if err := w.walk(f, &trail{at, "." + s.name, at.scope + "." + s.name}, s.tag); err != nil {
			return err
		}
	}
	return nil
}

// own makes a subject the owner of the row that is being walked. Rows after each other
// have no common owner.
func (w *walker) own(s *subject) {
	switch {
	case w.subject != nil:
	case w.owner == nil:
		w.owner = s
	default:
		w.owner = &subject{}
	}
	w.subject = s
}

// plan is how to walk a struct type.
type plan struct {
	steps   []step
	subject string // name of the field that identifies the person; may be empty
}

// step is a struct field that is sealed or contains sealed fields.
type step struct {
	index  int
	name   string
	direct bool // the field is an Of
	tag    *tag
}

// plans caches the plans of struct types.
var plans sync.Map // reflect.Type to *plan

// planOf returns the plan of a struct type. Errors name the place where the walker
// found the type.
func planOf(t reflect.Type, at string) (*plan, error) {
	if p, ok := plans.Load(t); ok {
		return p.(*plan), nil
	}
	p := &plan{}
	for i := range t.NumField() {
		s, err := stepOf(t.Field(i), at)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		s.index = i
		p.steps = append(p.steps, *s)
		if err := p.addSubject(t, s, at+"."+s.name); err != nil {
			return nil, err
		}
	}
	plans.Store(t, p)
	return p, nil
}

// stepOf returns the step for a struct field, or nil if nothing in the field
// is sealed.
func stepOf(f reflect.StructField, at string) (*step, error) {
	name := at + "." + f.Name
	text, tagged := f.Tag.Lookup(tagKey)
	base := baseOf(f.Type)
	switch {
	case tagged && !isColumn(base):
		return nil, fieldErrorf(name, "has a vault tag, but %s is not a sealed type such as vaultsql.Text", f.Type)
	case !holds(f.Type):
		return nil, nil
	case !f.IsExported() && !(f.Anonymous && base.Kind() == reflect.Struct):
		return nil, fieldErrorf(name, "is unexported, so it cannot be sealed; export it")
	}
	t, err := parseTag(name, text)
	if err != nil {
		return nil, err
	}
	return &step{name: f.Name, direct: isColumn(f.Type), tag: t}, nil
}

// ownPath is the path of this package.
var ownPath = reflect.TypeFor[Text]().PkgPath()

// isColumn reports whether a type is an Of. It checks the name, because a struct
// that embeds an Of has the same methods.
func isColumn(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() == ownPath && strings.HasPrefix(t.Name(), "Of[")
}

// holders caches the results of holds.
var holders sync.Map // reflect.Type to bool

// holds reports whether a type is or contains an Of.
func holds(t reflect.Type) bool {
	if known, ok := holders.Load(t); ok {
		return known.(bool)
	}
	found := leads(t, map[reflect.Type]bool{})
	holders.Store(t, found)
	return found
}

// leads is holds without the cache, which must not keep results from inside a
// cycle of types.
func leads(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return leads(t.Elem(), seen)
	case reflect.Struct:
		if isColumn(t) {
			return true
		}
		for i := range t.NumField() {
			if f := t.Field(i); leads(f.Type, seen) || f.Tag.Get(tagKey) != "" {
				return true
			}
		}
	default:
	}
	return false
}
