//go:build long

package main

import (
	"bytes"
	"flag"
	"image"
	"image/png"
	"os"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

var update = flag.Bool("update", false, "rewrite screenshot.png")

// TestScreenshot creates the picture of the README: desktop and phone.
func TestScreenshot(t *testing.T) {
	t.Parallel()
	w := newShopPage(t)
	var shots []image.Image
	for _, s := range []browser.Screen{{Width: 880, Height: 724}, {Width: 390, Height: 724, Phone: true}} {
		p := w.newTab(t, s)
		p.Navigate(w.orderPage())
		number := goodNumber
		if s.Phone {
			number = "4242424242424241"
		}
		p.fill(number, goodExpiry, goodCode)
		if s.Phone {
			p.Press(kb.Enter)
			p.awaitError("cc-number", "Check the card number. A digit seems to be wrong.")
		}
		shots = append(shots, p.Shot())
	}
	picture := browser.Beside(shots...)
	must.Same(t, "the picture", 880+390+browser.Gap, picture.Bounds().Dx())
	if !*update {
		return
	}
	var file bytes.Buffer
	must.Do(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, picture))
	if file.Len() > 150<<10 {
		t.Errorf("the picture has %d bytes", file.Len())
	}
	must.Do(t, os.WriteFile("screenshot.png", file.Bytes(), 0o644))
}
