//go:build long

package elements_test

import (
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestPictures draws the elements on a desktop and on a phone, light and dark, empty, with
// an error, at 400 % and from right to left. The files are in $VAULT_TEST_PICTURES, for
// people to look at.
func TestPictures(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("VAULT_TEST_PICTURES")
	if folder == "" {
		folder = t.TempDir()
	}
	screens := map[string]browser.Screen{
		"desktop": {Width: 480, Height: 420}, "desktop-dark": {Width: 480, Height: 420, Dark: true},
		"phone": {Width: 360, Height: 420, Phone: true}, "phone-dark": {Width: 360, Height: 420, Phone: true, Dark: true}, "zoom": {Width: 240, Height: 560},
	}
	for name, s := range screens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *elements.Options) {
				o.Networks = func(string) []string { return []string{"cartes_bancaires", "visa"} }
			})
			w.policy = ""
			element := `<style>html { color-scheme: light dark } body { margin: 24px; font-family: sans-serif }</style>` + card
			if name == "desktop-dark" {
				element = `<style>html { color-scheme: light dark } body { margin: 24px }</style><div dir="rtl" lang="de"><vault-card api-key="KEY"></vault-card></div>`
			}
			p := w.open(s, element)
			p.Provoked = true
			p.frame().Value(`new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(() => done(''))) })`) // it has been painted
			shots := []image.Image{p.Shot()}
			p.focus("number")
			p.Press("4970100000000154")
			p.until(`last('number').networks?.length === 2`)
			p.focus("expiry")
			p.Press("1319")
			p.outcome(`el.tokenize()`)
			p.frame().Await(`document.getElementById('cc-csc-error').offsetHeight > 0 && innerHeight === Math.ceil(document.body.getBoundingClientRect().height)`)
			shots = append(shots, p.Shot())
			file := must.Get(os.Create(filepath.Join(folder, name+".png")))(t)
			must.Do(t, png.Encode(file, browser.Beside(shots...)))
			must.Do(t, file.Close())
		})
	}
}

// TestTimeToReady logs the time from the script to ready, on loopback.
func TestTimeToReady(t *testing.T) {
	w := newWorld(t, nil)
	p := w.load(desktop, w.page(card))
	p.until(`log.some(([name]) => name === 'ready')`)
	t.Logf("ready after %s ms", p.Value(`String(Math.round(log.find(([name]) => name === 'ready')[3] - performance.getEntriesByType('resource').find((e) => e.name.endsWith('/elements.js')).responseEnd))`))
}
