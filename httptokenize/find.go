package httptokenize

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// maxFieldDepth is how deeply a body may nest.
const maxFieldDepth = 200

// find returns the positions of the chosen values in a body, in order. A
// field that occurs twice is found twice.
func (t *tokenizing) find(body []byte) ([]foundValue, error) {
	w := &fieldWalk{body: body, dec: json.NewDecoder(bytes.NewReader(body)), paths: t.paths}
	all := make([]int, len(t.paths))
	for i := range all {
		all[i] = i
	}
	if err := w.value(all, 0); err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(body[w.dec.InputOffset():])) > 0 {
		return nil, errMalformed
	}
	return w.found, nil
}

var (
	errMalformed = invalid("must be a single JSON value")
	errTooDeep   = invalid(fmt.Sprintf("is nested more than %d levels deep", maxFieldDepth))
)

// invalid returns an error about a whole body.
func invalid(message string) error {
	return &vault.InvalidError{Fields: map[string][]string{"": {message}}}
}

// fieldWalk walks a body along the paths of fields.
type fieldWalk struct {
	body  []byte
	dec   *json.Decoder
	paths [][]string
	found []foundValue
}

// value reads a value. Depth is the number of steps from the root of the
// body, and open lists the paths that lead here.
func (w *fieldWalk) value(open []int, depth int) error {
	for _, i := range open {
		if len(w.paths[i]) == depth {
			return w.take(i)
		}
	}
	if depth > maxFieldDepth {
		return errTooDeep
	}
	if len(open) == 0 {
		return w.take(-1)
	}
	token, err := w.dec.Token()
	if err != nil {
		return errMalformed
	}
	switch token {
	case json.Delim('{'):
		return w.object(open, depth)
	case json.Delim('['):
		return w.array(open, depth)
	}
	return nil
}

func (w *fieldWalk) object(open []int, depth int) error {
	for w.dec.More() {
		token, err := w.dec.Token()
		if err != nil {
			return errMalformed
		}
		name, _ := token.(string)
		if err := w.value(w.along(open, depth, name), depth+1); err != nil {
			return err
		}
	}
	return w.end()
}

func (w *fieldWalk) array(open []int, depth int) error {
	for w.dec.More() {
		if err := w.value(w.along(open, depth, "[]"), depth+1); err != nil {
			return err
		}
	}
	return w.end()
}

// end reads the end of an object or array.
func (w *fieldWalk) end() error {
	if _, err := w.dec.Token(); err != nil {
		return errMalformed
	}
	return nil
}

// along returns the paths whose next step is the given one.
func (w *fieldWalk) along(open []int, depth int, step string) []int {
	var out []int
	for _, i := range open {
		if strings.EqualFold(w.paths[i][depth], step) {
			out = append(out, i)
		}
	}
	return out
}

// take reads a whole value. If it belongs to a field, which is -1 for none, take
// records its position, because it will be replaced.
func (w *fieldWalk) take(field int) error {
	var raw json.RawMessage
	if err := w.dec.Decode(&raw); err != nil {
		return errMalformed
	}
	if end := int(w.dec.InputOffset()); field >= 0 && string(raw) != "null" {
		w.found = append(w.found, foundValue{field: field, start: end - len(raw), end: end})
	}
	return nil
}
