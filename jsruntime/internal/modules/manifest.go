package modules

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
)

// manifest has the relevant fields of a package.json.
type manifest struct {
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	Main         json.RawMessage `json:"main"` // a string, but not in every package
	Exports      json.RawMessage `json:"exports"`
	Imports      json.RawMessage `json:"imports"`
	Dependencies json.RawMessage `json:"dependencies"`
}

// main returns the main file of the package, if it names one.
func (m *manifest) main() string {
	var name string
	_ = json.Unmarshal(m.Main, &name) // Node also ignores a value that is not a string
	return name
}

// pair is a property of a JSON object. The order of conditions matters, and a
// Go map would lose it.
type pair struct {
	key   string
	value json.RawMessage
}

// pairsOf returns the properties of a JSON object in order, or nil for any
// other value.
func pairsOf(raw json.RawMessage) []pair {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil
	}
	var out []pair
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil
		}
		p := pair{}
		p.key, _ = key.(string)
		if dec.Decode(&p.value) != nil {
			return nil
		}
		out = append(out, p)
	}
	return out
}

// target returns the target that exports or imports have for a name such as
// "./sub". It is a path that starts with "./" or, in imports, the name of a
// package. conditions are the active conditions.
func target(raw json.RawMessage, name string, conditions map[string]bool) (string, bool) {
	pairs := pairsOf(raw)
	if len(pairs) == 0 || !strings.HasPrefix(pairs[0].key, ".") && !strings.HasPrefix(pairs[0].key, "#") {
		if name != "." {
			return "", false
		}
		return chosen(raw, "", conditions) // one target, for the package itself
	}
	var best pair
	var star string
	for _, p := range pairs {
		if p.key == name {
			return chosen(p.value, "", conditions)
		}
		if rest, ok := matchPattern(p.key, name); ok && len(p.key) > len(best.key) {
			best, star = p, rest
		}
	}
	if best.key == "" {
		return "", false
	}
	return chosen(best.value, star, conditions)
}

// matchPattern returns the part of a name that the star of a key matches. A key
// that ends in a slash matches everything below it, as up to Node 16.
func matchPattern(key, name string) (string, bool) {
	head, tail, ok := strings.Cut(key, "*")
	if !ok {
		rest, below := strings.CutPrefix(name, key)
		return rest, below && strings.HasSuffix(key, "/") && rest != ""
	}
	if len(name) <= len(head)+len(tail) || !strings.HasPrefix(name, head) || !strings.HasSuffix(name, tail) {
		return "", false
	}
	return name[len(head) : len(name)-len(tail)], true
}

// chosen follows conditions and lists down to a path.
func chosen(raw json.RawMessage, star string, conditions map[string]bool) (string, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		if strings.HasSuffix(text, "/") {
			return text + star, true
		}
		return strings.ReplaceAll(text, "*", star), true
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, item := range list {
			if found, ok := chosen(item, star, conditions); ok {
				return found, true
			}
		}
		return "", false
	}
	for _, p := range pairsOf(raw) {
		if p.key != "default" && !conditions[p.key] {
			continue
		}
		if string(p.value) == "null" {
			return "", false
		}
		if found, ok := chosen(p.value, star, conditions); ok {
			return found, true
		}
	}
	return "", false
}

// Public maps the names that tenant code may require to files of the prelude.
// Other names are not found.
var Public = func() map[string]string {
	out := maps.Clone(otherNames)
	for name := range compile.Words(sameNames) {
		out[name] = strings.ReplaceAll(name, "/", "_")
	}
	return out
}()

// sameNames are the modules whose files have the same name.
const sameNames = `assert assert/strict axios buffer child_process cluster console crypto
	dns dns/promises events fs fs/promises http http2 https module net os path path/win32 perf_hooks process
	punycode querystring stream stream/consumers stream/promises string_decoder timers timers/promises tls tty
	url util util/types v8 vm worker_threads zlib`

// otherNames are the other modules, with their files.
var otherNames = map[string]string{
	"@vault/errors": "errors",
	"@basis-theory/basis-theory-reactor-formulas-sdk-js": "errors",
	"abort-controller":    "abort",
	"node-fetch":          "node_fetch",
	"path/posix":          "path",
	"stream/web":          "webstreams",
	"_stream_duplex":      "stream_duplex_class",
	"_stream_passthrough": "stream_passthrough_class",
	"_stream_readable":    "stream_readable_class",
	"_stream_transform":   "stream_transform_class",
	"_stream_writable":    "stream_writable_class",
}

// StandIns are the public modules that replace packages. A package of the
// operator with the same name takes precedence.
var StandIns = compile.Words("abort-controller axios node-fetch")

// Own are the public modules that exist only here.
var Own = compile.Words("@vault/errors @basis-theory/basis-theory-reactor-formulas-sdk-js")

// coreModules are the modules of Node that are not supported. Their names never
// refer to packages.
var coreModules = compile.Words("async_hooks dgram diagnostics_channel domain inspector path/win32 readline repl stream/consumers stream/web sys trace_events wasi")

// isNodeModule reports whether a name always means a module of Node, whatever
// packages there are.
func isNodeModule(name string) bool {
	plain := strings.TrimPrefix(name, "node:")
	return plain != name || coreModules[plain] || Public[plain] != "" && !StandIns[plain]
}
