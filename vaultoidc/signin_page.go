package vaultoidc

import (
	"html/template"
	"log/slog"
	"net/http"
)

// page is a page of the sign-in. It goes on automatically if it has a Next, because a
// browser sends the strict cookie of a session only if the page before is of the same
// site.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
{{with .Next}}<meta http-equiv="refresh" content="0;url={{.}}">{{end}}<title>{{.Title}}</title></head>
<body><h1>{{.Title}}</h1>{{with .Detail}}<p>{{.}}</p>{{end}}<p><a href="{{.Href}}">{{.Link}}</a></p></body></html>
`))

type pageData struct{ Title, Detail, Next, Href, Link string }

// headers protects a response of the sign-in.
func (s *SignIn) headers(w http.ResponseWriter) {
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
}

func (s *SignIn) render(w http.ResponseWriter, status int, data pageData) {
	s.headers(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = page.Execute(w, data) // fails only if the browser has left
}

// show shows a page with a link that begins a sign-in.
func (s *SignIn) show(w http.ResponseWriter, status int, title, link string) {
	s.render(w, status, pageData{Title: title, Href: s.base.String() + signInPath, Link: link})
}

// fail shows the page of a sign-in that has failed. The reason is a fixed text, and the
// cause is for the log alone.
func (s *SignIn) fail(w http.ResponseWriter, r *http.Request, status int, reason string, cause error) {
	s.config.Logger.WarnContext(r.Context(), "vaultoidc: a person cannot sign in at the console", slog.String("reason", reason), slog.Any("error", cause))
	s.render(w, status, pageData{Title: "You are not signed in", Detail: "The sign-in has failed: " + reason + ".", Href: s.base.String() + "/", Link: "Try again"})
}

// goOn leads the browser to the page that it requested.
func (s *SignIn) goOn(w http.ResponseWriter, to string) {
	to = s.base.String() + to // never another host, because the URL of the console comes first
	s.render(w, http.StatusOK, pageData{Title: "You are signed in", Next: to, Href: to, Link: "Go on"})
}

// cookie returns the name of a cookie. With TLS it has a prefix, so that no other host
// can set it.
func (s *SignIn) cookie(name string) string {
	if s.base.Scheme == "https" {
		return "__Host-" + name
	}
	return name
}

func (s *SignIn) setCookie(w http.ResponseWriter, name, value string, age int, site http.SameSite) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever the browser uses TLS
		Name: s.cookie(name), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: s.base.Scheme == "https", SameSite: site,
	})
}
