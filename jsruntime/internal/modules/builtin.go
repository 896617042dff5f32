package modules

import "strings"

// Public maps the names that tenant code may require to files of the prelude.
// Other names are not found.
var Public = func() map[string]string {
	out := map[string]string{
		"@vault/errors": "errors",
		"@basis-theory/basis-theory-reactor-formulas-sdk-js": "errors",
		"assert/strict":       "assert_strict",
		"node-fetch":          "node_fetch",
		"path/posix":          "path",
		"path/win32":          "path_win32",
		"stream/consumers":    "stream_consumers",
		"stream/promises":     "stream_promises",
		"stream/web":          "webstreams",
		"timers/promises":     "timers_promises",
		"util/types":          "util_types",
		"_stream_duplex":      "stream_duplex_class",
		"_stream_passthrough": "stream_passthrough_class",
		"_stream_readable":    "stream_readable_class",
		"_stream_transform":   "stream_transform_class",
		"_stream_writable":    "stream_writable_class",
		"abort-controller":    "abort",
		"dns/promises":        "dns_promises",
		"fs/promises":         "fs_promises",
	}
	for name := range wordsOf("assert axios buffer child_process cluster console crypto dns events fs http http2 https module net os path " +
		"perf_hooks process punycode querystring stream string_decoder timers tls tty url util v8 vm worker_threads " +
		"zlib") {
		out[name] = name
	}
	return out
}()

// StandIns are the public modules that replace packages. A package of the
// operator with the same name takes precedence.
var StandIns = wordsOf("abort-controller axios node-fetch")

// Own are the public modules that exist only here.
var Own = wordsOf("@vault/errors @basis-theory/basis-theory-reactor-formulas-sdk-js")

// coreModules are the modules of Node that are not supported. Their names never
// refer to packages.
var coreModules = wordsOf("async_hooks dgram diagnostics_channel domain inspector path/win32 readline repl stream/consumers stream/web sys trace_events wasi")

// isNodeModule reports whether a name always means a module of Node, whatever
// packages there are.
func isNodeModule(name string) bool {
	plain := strings.TrimPrefix(name, "node:")
	return plain != name || coreModules[plain] || Public[plain] != "" && !StandIns[plain]
}

func wordsOf(words string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		out[word] = true
	}
	return out
}
