//go:build long

package console_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/browser"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/jsruntime"
)

var update = flag.Bool("update", false, "rewrite the pictures of docs")

// show fills the vault with what a picture should have.
func (w *consoleVault) show() {
	w.t.Helper()
	w.name("Acme")
	ctx := w.t.Context()
	for i, name := range []string{"order-4711", "order-4712", "payroll-jane", "invoice-88"} {
		p := vault.TokenParams{ID: name, Type: vault.TypeCardNumber, Data: "4242424242424242", Metadata: map[string]string{"customer": fmt.Sprint("customer-", i)}}
		if name == "payroll-jane" {
			p.Type, p.Data = vault.TypeBank, vault.BankData{RoutingNumber: "021000021", AccountNumber: "1234567890"}
		}
		must.Get(w.Owner.CreateToken(ctx, p))(w.t)
	}
	for _, id := range []string{wide, "a " + rightly} {
		must.Do(w.t, w.Owner.DeleteToken(ctx, id))
	}
	must.Get(w.Owner.PatchApplication(ctx, w.app.ID, map[string]any{"name": "Support desk", "rules": []vault.AccessRule{
		{Priority: 1, Description: "cards, masked", Container: "/pci/", Transform: vault.TransformMask, Permissions: []vault.Permission{"token:read", "token:search"}},
		{Priority: 2, Description: "test data in clear", Transform: vault.TransformReveal, Permissions: []vault.Permission{"token:read"}, Conditions: []vault.Condition{{Attribute: "id", Operator: "starts_with", Value: "test-"}}},
		{Priority: 3, Description: "nothing of people", Container: "/pii/", Transform: vault.TransformRedact, Permissions: []vault.Permission{"token:read"}},
	}}))(w.t)
	must.Get(w.Owner.PatchReactor(ctx, w.reactor.ID, map[string]any{"name": "Charge a card", "code": chargeCode}))(w.t)
	w.hour()
}

// hour fills the log with an hour of creates and reads.
func (w *consoleVault) hour() {
	w.t.Helper()
	for minute := range 60 {
		w.Clock.Advance(time.Minute)
		if minute >= 34 && minute < 40 {
			continue // a gap
		}
		for i := range int(5 + 3*math.Sin(float64(minute)*.7) + 2*math.Sin(float64(minute)*2.3)) {
			if i%3 == 0 {
				must.Get(w.Private.CreateToken(w.t.Context(), vault.TokenParams{Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242", ExpirationMonth: 7, ExpirationYear: 2033}}))(w.t)
			}
			must.Get(w.Private.GetToken(w.t.Context(), "order-4711"))(w.t)
		}
	}
}

const chargeCode = `// Charges the card that a token stands for.
module.exports = async function (req) {
  const { amount, currency = 'EUR' } = req.args
  if (!Number.isInteger(amount) || amount <= 0) {
    throw new BadRequestError('amount must be a positive integer')
  }
  console.log('charging', amount, currency)
  return { raw: { status: 'charged', amount, currency } }
}
`

// traffic gives the recorder a day to remember.
func (w *consoleVault) traffic() {
	now := time.Now()
	w.rec.Forget()
	for minutes := 24*60 - 1; minutes >= 0; minutes-- {
		if minutes >= 20 && minutes < 26 {
			continue // a gap
		}
		at := now.Add(-time.Duration(minutes) * time.Minute)
		w.rec.At(at)
		hour := float64(at.UTC().Hour()) + float64(at.Minute())/60
		busy := 1.2 + math.Sin((hour-8)/24*2*math.Pi) + .35*math.Sin(float64(minutes)*.7) + .2*math.Sin(float64(minutes)*2.3)
		for i := range int(max(busy*9, 2)) {
			took := time.Duration(900+400*math.Sin(float64(minutes)*.3)+float64(i*i)*14) * time.Microsecond
			w.rec.Call("read", took, nil)
			if i%3 == 0 {
				w.rec.Call("create", took*2, nil)
			}
		}
		if minutes%17 == 3 {
			w.rec.Call("read", 3*time.Millisecond, errors.New("refused"))
		}
	}
	w.rec.At(now)
}

// TestScreenshots makes the pictures of README and docs: the overview, and what
// one does with code, rules and tokens.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	w := newConsoleVaultOn(t, jsruntime.NewInProcess(nil), trailed)
	w.show()
	w.trail()
	w.traffic()
	desktop, phone := newTab(t, browser.Screen{Width: 1180, Height: 860}), newTab(t, browser.Screen{Width: 390, Height: 860, Phone: true, Dark: true})
	for _, p := range []*tab{desktop, phone} {
		p.Navigate(w.server.URL + "/login/owner")
	}
	all := w.pages()
	for name, pictures := range map[string][2]string{"console-overview": {"overview", "overview"}, "console-explain": {"explain", "application"}, "console-code": {"reactor", "tokens"}} {
		desktop.Navigate(all[pictures[0]])
		phone.Navigate(all[pictures[1]])
		if pictures[0] == "reactor" {
			desktop.Run(`document.getElementById('args-').value = '{"amount": 0}'; document.querySelector('.try button').click()`)
			desktop.Await(`document.querySelector('.trial') !== null && document.readyState === 'complete'`)
			desktop.Run(`scrollTo(0, 220)`)
		}
		picture := browser.Beside(desktop.Shot(), phone.Shot())
		if picture.Bounds().Dx() < 1180+390 {
			t.Errorf("%s has %s", name, picture.Bounds())
		}
		if *update {
			write(t, filepath.Join("..", "docs", name+".png"), picture)
		}
	}
}

// write writes a picture with 128 colours, which are enough for pages and take a
// third of the bytes.
func write(t *testing.T, path string, picture image.Image) {
	t.Helper()
	var file bytes.Buffer
	must.Do(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, paletted(picture)))
	if file.Len() > 150<<10 {
		t.Errorf("%s has %d bytes", path, file.Len())
	}
	must.Do(t, os.WriteFile(path, file.Bytes(), 0o644))
}

// paletted keeps the colours that occur most.
func paletted(picture image.Image) image.Image {
	counts := map[color.RGBA]int{}
	b := picture.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			counts[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)]++
		}
	}
	var palette color.Palette
	for len(palette) < 128 && len(counts) > 0 {
		var most color.RGBA
		for c, n := range counts {
			if n > counts[most] {
				most = c
			}
		}
		palette = append(palette, most)
		delete(counts, most)
	}
	out := image.NewPaletted(b, palette)
	draw.Draw(out, b, picture, b.Min, draw.Src)
	return out
}
