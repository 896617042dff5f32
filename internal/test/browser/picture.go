//go:build long

package browser

import (
	"bytes"
	"image"
	"image/draw"
	"image/png"

	"github.com/chromedp/chromedp"
)

// Gap is the space between two pictures in Beside, in pixels.
const Gap = 16

// Shot returns a screenshot of the tab.
func (p *Tab) Shot() image.Image {
	p.T.Helper()
	ctx, cancel := p.patient()
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.T.Fatal(err)
	}
	shot, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		p.T.Fatal(err)
	}
	return shot
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
