package httpserver

import (
	"bytes"
	"context"
	_ "embed" // for the OpenAPI document
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

//go:embed openapi.json
var openAPIDocument []byte

// openAPI returns the OpenAPI document for a header prefix.
func openAPI(prefix string) []byte {
	document := bytes.ReplaceAll(openAPIDocument, []byte(defaultPrefix), []byte(prefix))
	return bytes.ReplaceAll(document, []byte(strings.ToLower(defaultPrefix)), []byte(strings.ToLower(prefix)))
}

func (h *handler) openAPI(context.Context) (any, error) { return vault.JSON(h.document), nil }

// health is the body of /healthz and /readyz.
type health struct {
	Status string `json:"status"`
	// Evidence describes a problem with the evidence of the log, if there is one.
	// The vault still serves.
	Evidence string `json:"evidence,omitempty"`
	// Clock is what is wrong with the clock of this node, if anything is.
	Clock string `json:"clock,omitempty"`
}

// alive reports that the process is serving.
func (h *handler) alive(context.Context) (any, error) { return health{Status: "ok"}, nil }

// readyTimeout is how long /readyz waits for the database.
const readyTimeout = 4 * time.Second

// ready checks that the database responds and accepts writes, that this node may use the
// master key, and that the server is not being stopped. It calls no holder of a key, and
// tenants' own keys do not count.
func (h *handler) ready(ctx context.Context) (any, error) {
	if h.opts.Drain.draining() {
		return nil, errDraining
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := h.vault.Ping(ctx); err != nil {
		return nil, errors.Join(errNotReady, fmt.Errorf("ping: %w", err))
	}
	if !h.opts.ReadyWithoutKey {
		if err := h.vault.KeyUsable(); err != nil {
			return nil, errNoKey
		}
	}
	out := health{Status: "ok", Clock: core.SkewProblem(h.vault.ClockAhead())}
	if s, err := h.vault.EvidenceStatus(); err == nil {
		out.Evidence = s.Wrong()
	}
	return out, nil
}
