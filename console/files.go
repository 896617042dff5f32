package console

import (
	"bytes"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

//go:embed page
var files embed.FS

// static are the files that pages load, by the last part of their path. They hold
// no data of the vault, so they are served to everyone.
var static = map[string]string{"console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml", "copy.svg": "image/svg+xml", "done.svg": "image/svg+xml"}

// serveFile serves a static file, if the request is for one.
func serveFile(w http.ResponseWriter, r *http.Request) bool {
	name := strings.TrimPrefix(r.URL.Path, "/")
	contentType, ok := static[name]
	if !ok {
		return false
	}
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		return false
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
	return true
}

var helpers = template.FuncMap{
	"number": number, "number64": func(n int64) string { return number(int(n)) }, "ago": ago, "gets": gets, "onlyTo": onlyTo, "sentence": sentence, "next": func(i int) int { return i + 1 }, "outcome": outcome, "seconds": seconds, "duration": duration, "moment": moment, "machine": machine,
	"pathEscape": pathEscape, "mask": mask, "indented": indented, "zero": func(id uuid.UUID) bool { return id == uuid.UUID{} },
	"args": func(all ...any) []any { return all }, "idRef": func(id uuid.UUID) ref { return idRef(id.String(), "") },
}

// pathEscape escapes text as one segment of a path. The template's own escaping
// keeps slashes.
func pathEscape(text string) string {
	return strings.ReplaceAll(template.URLQueryEscaper(text), "+", "%20")
}

// pages are the templates by file name. Each includes the layout and the shared
// parts.
var pages = func() map[string]*template.Template {
	names, err := fs.Glob(files, "page/*.html")
	if err != nil {
		panic(err)
	}
	shared := []string{"page/layout.html", "page/parts.html"}
	all := map[string]*template.Template{}
	for _, name := range names {
		if slices.Contains(shared, name) {
			continue
		}
		t := template.New("").Funcs(helpers)
		all[strings.TrimSuffix(path.Base(name), ".html")] = template.Must(t.ParseFS(files, append(shared, name)...))
	}
	return all
}()

// query encodes a query for a URL. A template would escape a plain string again.
func query(v url.Values) template.URL {
	return template.URL(v.Encode()) //nolint:gosec // Encode escapes it
}
