package modules

import "strings"

// Public maps the names that tenant code may require to files of the prelude.
// Other names are not found.
var Public = map[string]string{
	"@vault/errors": "errors",
	"@basis-theory/basis-theory-reactor-formulas-sdk-js": "errors",
	"assert":              "assert",
	"assert/strict":       "assert_strict",
	"axios":               "axios",
	"buffer":              "buffer",
	"console":             "console",
	"crypto":              "crypto",
	"events":              "events",
	"http":                "http",
	"https":               "https",
	"node-fetch":          "node_fetch",
	"path":                "path",
	"path/posix":          "path",
	"path/win32":          "path_win32",
	"perf_hooks":          "perf_hooks",
	"process":             "process",
	"querystring":         "querystring",
	"stream":              "stream",
	"stream/consumers":    "stream_consumers",
	"stream/promises":     "stream_promises",
	"stream/web":          "webstreams",
	"string_decoder":      "string_decoder",
	"timers":              "timers",
	"timers/promises":     "timers_promises",
	"url":                 "url",
	"util":                "util",
	"util/types":          "util_types",
	"zlib":                "zlib",
	"_stream_duplex":      "stream_duplex_class",
	"_stream_passthrough": "stream_passthrough_class",
	"_stream_readable":    "stream_readable_class",
	"_stream_transform":   "stream_transform_class",
	"_stream_writable":    "stream_writable_class",
	"abort-controller":    "abort",
	"child_process":       "child_process",
	"cluster":             "cluster",
	"dns":                 "dns",
	"dns/promises":        "dns_promises",
	"fs":                  "fs",
	"fs/promises":         "fs_promises",
	"http2":               "http2",
	"module":              "module",
	"net":                 "net",
	"os":                  "os",
	"punycode":            "punycode",
	"tls":                 "tls",
	"tty":                 "tty",
	"v8":                  "v8",
	"vm":                  "vm",
	"worker_threads":      "worker_threads",
}

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
