package serve

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
)

// consolePath is where the console is.
const consolePath = "/console/"

// demoConsole is the console of a server with a demo tenant. The first person to
// open its link is its owner. Other servers have no console: their output is kept
// in logs, where such a link must not be.
type demoConsole struct {
	recorder *console.Recorder
	link     *console.Link
}

func newDemoConsole() *demoConsole {
	return &demoConsole{console.NewRecorder(), console.NewLink(console.User{ID: "console", Role: console.Owner})}
}

// beside puts the console on a server beside another handler.
func (d *demoConsole) beside(srv *http.Server, v *vault.Vault, logger *slog.Logger) {
	stop := make(chan struct{})
	srv.RegisterOnShutdown(func() { close(stop) }) // pages that are left open do not hold it up
	pages := http.StripPrefix(strings.TrimSuffix(consolePath, "/"), d.link.Handler(console.Handler(v, &console.Options{
		Authorize: d.link.Authorize, Recorder: d.recorder, Stop: stop, Logger: logger,
	})))
	rest := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, consolePath):
			pages.ServeHTTP(w, r)
		case r.URL.Path+"/" == consolePath:
			http.Redirect(w, r, consolePath, http.StatusSeeOther)
		default:
			rest.ServeHTTP(w, r)
		}
	})
}
