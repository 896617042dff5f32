package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"expvar"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
)

// newHandler puts the service's own routes, the vault's REST API and the
// metrics on one mux, inside the service's middleware.
func newHandler(v *vault.Vault, staff *vault.Client, token string, drain *httpserver.Drain, logger *slog.Logger) http.Handler {
	d, m := &directory{staff}, newMetrics()
	mux := http.NewServeMux()
	mux.Handle("POST /employees", signedIn(token, d.create))
	mux.Handle("GET /employees/{id}", signedIn(token, d.show))
	mux.Handle("GET /metrics", m)
	mux.Handle("/vault/", http.StripPrefix("/vault", httpserver.Handler(v, &httpserver.Options{Observer: m, Drain: drain, Logger: logger})))
	return timed(logger, mux)
}

// timed logs each request with the pattern of its route, which contains no value.
func timed(logger *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		next.ServeHTTP(w, r)
		logger.InfoContext(r.Context(), "served", "route", r.Pattern, "took", time.Since(began))
	})
}

// signedIn requires the bearer token of the staff.
func signedIn(token string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) != 1 {
			http.Error(w, "a valid bearer token is required", http.StatusUnauthorized)
			return
		}
		next(w, r)
	})
}

// directory is the service's own part. It stores everything in the vault.
type directory struct{ client *vault.Client }

// employee is an employee in requests and responses. Responses have a masked
// SSN.
type employee struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	SSN  string `json:"ssn"`
}

// maxBody is the maximum size of a request to the directory.
const maxBody = 4 << 10

func (d *directory) create(w http.ResponseWriter, r *http.Request) {
	var in employee
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		http.Error(w, `the body must be JSON of the form {"name": "...", "ssn": "..."}`, http.StatusBadRequest)
		return
	}
	token, err := d.client.CreateToken(r.Context(), vault.TokenParams{
		Type: vault.TypeSocialSecurityNumber, Data: in.SSN, Metadata: map[string]string{"name": in.Name}})
	answer(w, http.StatusCreated, token, err)
}

func (d *directory) show(w http.ResponseWriter, r *http.Request) {
	token, err := d.client.GetToken(r.Context(), r.PathValue("id"))
	answer(w, http.StatusOK, token, err)
}

// answer writes the employee of a token, or an error. The vault's errors can be
// shown to callers, because they contain no values.
func answer(w http.ResponseWriter, status int, token *vault.Token, err error) {
	var e employee
	if err == nil {
		e.ID, e.Name = token.ID, token.Metadata["name"]
		err = token.Data.Decode(&e.SSN)
	}
	if err != nil {
		httpserver.WriteError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(e) // an error means that the caller has left
}

// metrics counts the requests to the vault's REST API.
type metrics struct{ requests expvar.Map }

func newMetrics() *metrics {
	m := &metrics{}
	m.requests.Init()
	return m
}

// Observe implements httpserver.Observer.
func (m *metrics) Observe(_ context.Context, r httpserver.RequestInfo) {
	m.requests.Add(fmt.Sprintf("%s %s %d", r.Method, r.Route, r.Status), 1)
}

// ServeHTTP shows the counts as JSON.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintln(w, m.requests.String())
}
