package modules

import (
	"maps"
	"strings"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
)

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
