package vaultlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
)

// masker masks the parts of a record.
type masker struct{ values *Values }

// text masks a text.
func (m *masker) text(s string) string { return scan(m.values.hide(s)) }

// attr masks an attribute, and reports whether it is another one now.
func (m *masker) attr(a slog.Attr) (slog.Attr, bool) {
	key := m.text(a.Key)
	value, changed := m.value(a.Value)
	return slog.Attr{Key: key, Value: value}, changed || key != a.Key
}

// value masks a value, and reports whether it is another one now. A LogValuer is
// resolved once, and its result passed on.
func (m *masker) value(v slog.Value) (slog.Value, bool) {
	valuer := v.Kind() == slog.KindLogValuer
	v = v.Resolve()
	masked, changed := v, false
	switch v.Kind() {
	case slog.KindString:
		text := m.text(v.String())
		masked, changed = slog.StringValue(text), text != v.String()
	case slog.KindInt64:
		masked, changed = m.number(v, strconv.FormatInt(v.Int64(), 10))
	case slog.KindUint64:
		masked, changed = m.number(v, strconv.FormatUint(v.Uint64(), 10))
	case slog.KindFloat64:
		if f := v.Float64(); f == math.Trunc(f) && math.Abs(f) < 1e20 {
			masked, changed = m.number(v, strconv.FormatFloat(f, 'f', 0, 64))
		}
	case slog.KindGroup:
		masked, changed = m.group(v)
	case slog.KindAny:
		masked, changed = m.any(v)
	case slog.KindBool, slog.KindDuration, slog.KindTime, slog.KindLogValuer: // nothing to see
	}
	return masked, changed || valuer
}

// number masks a number by its digits.
func (m *masker) number(v slog.Value, digits string) (slog.Value, bool) {
	if text := m.text(digits); text != digits {
		return slog.StringValue(text), true
	}
	return v, false
}

func (m *masker) group(v slog.Value) (slog.Value, bool) {
	changed := false
	attrs := make([]slog.Attr, len(v.Group()))
	for i, a := range v.Group() {
		var differs bool
		attrs[i], differs = m.attr(a)
		changed = changed || differs
	}
	if !changed {
		return v, false
	}
	return slog.GroupValue(attrs...), true
}

// any masks a value of a Go type that slog does not know. What the next handler
// makes of it is not known either: text, as %+v writes it, or JSON.
func (m *masker) any(v slog.Value) (slog.Value, bool) {
	switch x := v.Any().(type) {
	case nil:
		return v, false
	case []byte:
		if text := m.text(string(x)); text != string(x) {
			return slog.StringValue(text), true
		}
		return v, false
	}
	printed := fmt.Sprintf("%+v", v.Any())
	text := m.text(printed)
	if _, isError := v.Any().(error); isError {
		if text == printed {
			return v, false
		}
		return slog.AnyValue(errors.New(text)), true
	}
	if tree, changed := m.tree(v.Any()); changed {
		return slog.AnyValue(tree), true
	}
	if text == printed {
		return v, false
	}
	return slog.StringValue(text), true
}

// tree returns a value as encoding/json writes it, masked, and reports whether
// there was something to mask.
func (m *masker) tree(x any) (any, bool) {
	written, err := json.Marshal(x)
	if err != nil {
		return nil, false // no handler can write it either
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(written))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return nil, false
	}
	return m.branch(tree)
}

// branch masks a part of a tree.
func (m *masker) branch(x any) (any, bool) {
	changed := false
	switch x := x.(type) {
	case string:
		text := m.text(x)
		return text, text != x
	case json.Number:
		text := m.text(x.String())
		if text != x.String() {
			return text, true
		}
	case []any:
		for i := range x {
			var differs bool
			x[i], differs = m.branch(x[i])
			changed = changed || differs
		}
	case map[string]any:
		for name, value := range x {
			masked, differs := m.branch(value)
			if key := m.text(name); key != name {
				delete(x, name)
				name, differs = key, true
			}
			x[name], changed = masked, changed || differs
		}
	}
	return x, changed
}
