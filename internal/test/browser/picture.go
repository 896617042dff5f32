//go:build long

package browser

import (
	"bytes"
	"image"
	"image/draw"
	"image/png"

	"github.com/chromedp/chromedp"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// Gap is the space between two pictures in Beside, in pixels.
const Gap = 16

// Shot returns a screenshot of the tab.
func (p *Tab) Shot() image.Image {
	p.T.Helper()
	ctx, cancel := p.patient()
	defer cancel()
	text := must.Get(chromedp.Run(ctx, chromedp.CaptureScreenshot()))(p.T)
	return must.Get(png.Decode(bytes.NewReader(text)))(p.T)
}

// Beside puts pictures of the same height next to each other.
func Beside(shots ...image.Image) image.Image {
	width := -Gap
	for _, s := range shots {
		width += s.Bounds().Dx() + Gap
	}
	out, x := image.NewNRGBA(image.Rect(0, 0, width, shots[0].Bounds().Dy())), 0
	for _, s := range shots {
		draw.Draw(out, image.Rect(x, 0, x+s.Bounds().Dx(), s.Bounds().Dy()), s, s.Bounds().Min, draw.Src)
		x += s.Bounds().Dx() + Gap
	}
	return out
}
