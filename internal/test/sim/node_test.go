//go:build !race

package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// node is a process with a vault.
type node struct {
	w    *world
	slot int // its place
	life int // how often a process ran there before
	skew time.Duration
	dead chan struct{} // closed when the process has stopped

	// The world guards these.
	gone  bool
	until time.Time // paused until then

	v *vault.Vault // nil while it opens
}

// name returns the name of a node, or of a client's own steps.
func (n *node) name() string {
	if n == nil {
		return "client"
	}
	return fmt.Sprintf("node%d.%d", n.slot, n.life)
}

// Now is the clock of the node.
func (n *node) Now() time.Time { return time.Now().Add(n.skew) }

// isDead reports whether the process has stopped.
func (n *node) isDead() bool {
	select {
	case <-n.dead:
		return true
	default:
		return false
	}
}

// maxSkew is how far clocks of nodes are from the right time, at most.
const maxSkew = 500 * time.Millisecond

// keep runs processes at a place, one after the other.
func (w *world) keep(ctx context.Context, slot int) {
	for life := 0; ctx.Err() == nil; life++ {
		r := w.draw("node", slot<<16+life)
		n := &node{w: w, slot: slot, life: life, dead: make(chan struct{}), skew: upTo(r, 2*maxSkew) - maxSkew}
		if !w.start(ctx, n) {
			w.sleep(ctx, upTo(r, 3*time.Second))
			continue
		}
		select {
		case <-n.dead:
		case <-ctx.Done():
			return
		}
		w.place(slot, nil)
		w.sleep(ctx, upTo(r, 15*time.Second))
	}
}

// place sets the node at a place.
func (w *world) place(slot int, n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots[slot] = n
}

// start opens the vault of a node, and reports whether it is open.
func (w *world) start(ctx context.Context, n *node) bool {
	opened := make(chan error, 1)
	go func() {
		v, err := vault.Open(ctx, &store{w.db.Open(), n}, &kms{n, w.key, ""}, w.config(n))
		if err == nil {
			w.mu.Lock()
			n.v = v
			w.mu.Unlock()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		w.logf("%s is open%s", n.name(), outcomeText(err))
		if err == nil {
			w.place(n.slot, n)
		}
		return err == nil
	case <-n.dead:
		return false
	}
}

// config returns the configuration of a node.
func (w *world) config(n *node) *vault.Config {
	cfg := &vault.Config{Now: n.Now, Observer: watcher{n}, Runtime: code{n}}
	if w.has.own {
		cfg.OpenKey = func(context.Context, string) (vault.AEAD, error) { return &kms{n, w.own, ownURI}, nil }
	}
	if w.has.evidence {
		cfg.Evidence = &vault.EvidenceConfig{Anchors: []vault.Anchor{anchor{n}}, OnAlarm: n.alarm}
	}
	if w.has.sink {
		cfg.Sinks = []vault.Sink{{Name: "siem", Sender: sender{n}, FromStart: true}}
	}
	return cfg
}

// live returns the nodes that accept requests.
func (w *world) live() (all []*node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.slots {
		if n != nil && !n.gone {
			all = append(all, n)
		}
	}
	return all
}

// kms is a key outside the vault as a node sees it: the master key, or a tenant's own.
type kms struct {
	n   *node
	key *vault.Key
	uri string // of a tenant's own key
}

// call makes a call of the key's holder.
func (k *kms) call(ctx context.Context, what string, do func() error) error {
	return k.n.through(ctx, aKey, what+k.uri, func() error {
		if k.uri != "" && k.n.w.outside.deniedFor() > 0 {
			return vault.ErrKeyDenied
		}
		return do()
	})
}

// EncryptWithContext implements vault.AEADWithContext.
func (k *kms) EncryptWithContext(ctx context.Context, plaintext, data []byte) (out []byte, err error) {
	err = k.call(ctx, "Encrypt", func() (err error) {
		out, err = k.key.Encrypt(plaintext, data)
		return err
	})
	return out, err
}

// DecryptWithContext implements vault.AEADWithContext.
func (k *kms) DecryptWithContext(ctx context.Context, ciphertext, data []byte) (out []byte, err error) {
	err = k.call(ctx, "Decrypt", func() (err error) {
		out, err = k.key.Decrypt(ciphertext, data)
		return err
	})
	return out, err
}

// Encrypt implements vault.AEAD.
func (k *kms) Encrypt(plaintext, data []byte) ([]byte, error) {
	return k.EncryptWithContext(context.Background(), plaintext, data)
}

// Decrypt implements vault.AEAD.
func (k *kms) Decrypt(ciphertext, data []byte) ([]byte, error) {
	return k.DecryptWithContext(context.Background(), ciphertext, data)
}
