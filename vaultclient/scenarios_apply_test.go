package vaultclient_test

import (
	"fmt"
	"slices"

	"github.com/seed-72ea4aab/vault"
)

// sawApplied records the result of an Apply method.
func sawApplied[T any](w *apiVault, step string, got *vault.Applied[T], err error) {
	w.t.Helper()
	if got == nil {
		w.saw(step, (*T)(nil), err)
		return
	}
	w.saw(fmt.Sprint(step, ": created ", got.Created, ", changed ", got.Changed), got.Item, err)
}

func applyApplication(w *apiVault) {
	ctx, p := w.t.Context(), w.shop()
	same := p
	same.Rules = slices.Clone(p.Rules)
	slices.Reverse(same.Rules)
	other := p
	other.Permissions = []vault.Permission{"token:delete"}
	for step, params := range []vault.ApplicationParams{p, same, other, p, {Name: p.Name, Type: vault.ApplicationManagement}, {Type: p.Type, Permissions: p.Permissions}} {
		got, err := w.management.ApplyApplication(ctx, params)
		sawApplied(w, "ApplyApplication "+string(rune('a'+step)), got, err)
	}
	got, err := w.private.ApplyApplication(ctx, p)
	sawApplied(w, "ApplyApplication by a private key", got, err)
}

func applyReactor(w *apiVault) {
	ctx, p := w.t.Context(), w.reactorParams()
	changed, similar := p, p
	changed.Configuration = map[string]string{"KEY": "other"}
	similar.Name = "CHARGE <&>" // the filter of lists ignores case
	for step, params := range []vault.ReactorParams{p, p, changed, similar, p, {Name: p.Name, Code: "module.exports = (", Configuration: map[string]string{}}} {
		got, err := w.management.ApplyReactor(ctx, params)
		sawApplied(w, "ApplyReactor "+string(rune('a'+step)), got, err)
	}
}

func applyProxy(w *apiVault) {
	ctx := w.t.Context()
	p := vault.ProxyParams{Name: "Gateway *", DestinationURL: "https://a.example"}
	required, open := p, p
	required.RequireAuth, open.RequireAuth = new(true), new(false)
	for step, params := range []vault.ProxyParams{p, required, open, open, {Name: p.Name}} {
		got, err := w.management.ApplyProxy(ctx, params)
		sawApplied(w, "ApplyProxy "+string(rune('a'+step)), got, err)
	}
}
