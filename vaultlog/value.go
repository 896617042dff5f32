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

// attr masks an attribute and reports whether it changed.
func (m *masker) attr(a slog.Attr) (slog.Attr, bool) {
	key := m.text(a.Key)
	value, changed := m.value(a.Value)
	return slog.Attr{Key: key, Value: value}, changed || key != a.Key
}

// value masks a value and reports whether it changed. It resolves a LogValuer, so
// that the next handler does not call it again.
func (m *masker) value(v slog.Value) (slog.Value, bool) {
	valuer := v.Kind() == slog.KindLogValuer
	v = v.Resolve()
	masked, changed := v, false
	switch v.Kind() {
	case slog.KindString:
		text := m.text(v.String())
		masked, changed = slog.StringValue(text), text != v.String()
	case slog.KindInt64:
		masked, changed = m.number(v, float64(v.Int64()))
	case slog.KindUint64:
		masked, changed = m.number(v, float64(v.Uint64()))
	case slog.KindFloat64:
		masked, changed = m.number(v, v.Float64())
	case slog.KindGroup:
		masked, changed = m.group(v)
	case slog.KindAny:
		masked, changed = m.any(v)
	case slog.KindBool, slog.KindDuration, slog.KindTime, slog.KindLogValuer: // nothing to mask
	}
	return masked, changed || valuer
}

// number masks a number by its digits. Most numbers are too small for a card
// number and do not need to be formatted.
func (m *masker) number(v slog.Value, size float64) (slog.Value, bool) {
	size = math.Abs(size)
	if size < 1e11 && m.values.none() || size >= 1e20 {
		return v, false
	}
	digits := v.String()
	if v.Kind() == slog.KindFloat64 && size == math.Trunc(size) {
		digits = strconv.FormatFloat(v.Float64(), 'f', 0, 64)
	}
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

// any masks a value of any other Go type. The next handler may write the value with
// %+v or as JSON, so it masks both forms.
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

// tree returns the masked JSON of a value, decoded, and reports whether it changed.
func (m *masker) tree(x any) (any, bool) {
	written, err := json.Marshal(x)
	if err != nil {
		return nil, false // handlers cannot write it as JSON either
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(written))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return nil, false
	}
	return m.branch(tree)
}

// branch masks a part of a tree and reports whether it changed.
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
