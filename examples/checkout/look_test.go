package main

import (
	"bytes"
	"flag"
	"image"
	"image/draw"
	"image/png"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var update = flag.Bool("update", false, "rewrite screenshot.png")

// weakText is the text on a page that has less contrast than WCAG asks for at
// level AA, 4.5 to 1, and the edges of inputs that have less than 3 to 1.
const weakText = `(() => {
  const channels = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const light = (color) => {
    const [r, g, b] = channels(color).map((c) => (c / 255 <= .04045 ? c / 255 / 12.92 : ((c / 255 + .055) / 1.055) ** 2.4));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + .05) / (Math.min(light(a), light(b)) + .05);
  const behind = (e) => {
    const color = getComputedStyle(e).backgroundColor;
    return channels(color)[3] === 0 ? behind(e.parentElement) : color;
  };
  const weak = [];
  for (const e of document.body.querySelectorAll('*')) {
    const style = getComputedStyle(e);
    const check = (color, least, what) => {
      const found = ratio(color, behind(e.tagName === 'INPUT' && what === 'edge' ? e.parentElement : e));
      if (found < least) weak.push(e.tagName + '#' + e.id + ' ' + what + ' ' + found.toFixed(2));
    };
    if ([...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()) && e.offsetParent) check(style.color, 4.5, 'text');
    if (e.tagName === 'INPUT') {
      check(style.borderTopColor, 3, 'edge');
      check(getComputedStyle(e, '::placeholder').color, 4.5, 'placeholder');
    }
  }
  return weak.join('; ');
})()`

func TestEveryoneCanReadThePages(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]screen{
		"small phone": {width: 320, height: 640, phone: true},
		"dark phone":  {width: 390, height: 844, phone: true, dark: true},
		"desktop":     desktop,
		"dark":        {width: 1200, height: 800, dark: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p := newWorld(t).start(), newTab(t, s)
			check := func(state string) {
				t.Helper()
				if weak := p.value(weakText); weak != "" {
					t.Errorf("%s: too little contrast: %s", state, weak)
				}
				if wide := p.value(`String(document.documentElement.scrollWidth > innerWidth)`); wide != "false" {
					t.Errorf("%s: the page is wider than the screen", state)
				}
				if name := p.value(`[...document.querySelectorAll('input')].filter((i) => !i.labels.length || i.hasAttribute('name')).map((i) => i.id).join()`); name != "" {
					t.Errorf("%s: without a label, or with a name: %s", state, name)
				}
			}
			p.do(chromedp.Navigate(w.orderPage()))
			check("empty")
			p.tabTo("pay")
			if outline := p.value(`getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
				t.Errorf("the outline of what has the focus is %s", outline)
			}
			p.do(chromedp.KeyEvent(kb.Enter))
			p.awaitError("number", "Enter the card number.")
			check("with errors")
			if err := w.vault.Close(); err != nil {
				t.Fatal(err)
			}
			p.fill(goodNumber, goodExpiry, goodCode)
			p.do(chromedp.KeyEvent(kb.Enter))
			p.awaitNotice("cannot be reached")
			check("with a notice")
		})
	}
}

// TestScreenshot makes the picture of the README: desktop and phone.
func TestScreenshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start()
	var shots []image.Image
	for _, s := range []screen{{width: 880, height: 724}, {width: 390, height: 724, phone: true}} {
		p := newTab(t, s)
		p.do(chromedp.Navigate(w.orderPage()))
		number := goodNumber
		if s.phone {
			number = "4242424242424241"
		}
		p.fill(number, goodExpiry, goodCode)
		if s.phone {
			p.do(chromedp.KeyEvent(kb.Enter))
			p.awaitError("number", "Check the card number: it must have a valid check digit (Luhn).")
		}
		shots = append(shots, p.shot())
	}
	picture := beside(shots)
	if picture.Bounds().Dx() != 880+390+gap {
		t.Errorf("the picture has %s", picture.Bounds())
	}
	if !*update {
		return
	}
	var file bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, picture); err != nil {
		t.Fatal(err)
	}
	if file.Len() > 150<<10 {
		t.Errorf("the picture has %d bytes", file.Len())
	}
	if err := os.WriteFile("screenshot.png", file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// shot is a picture of the tab.
func (p *tab) shot() image.Image {
	p.t.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	shot, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		p.t.Fatal(err)
	}
	return shot
}

// gap is the room between two pictures, in pixels.
const gap = 16

// beside puts pictures of one height beside each other.
func beside(shots []image.Image) image.Image {
	width := -gap
	for _, s := range shots {
		width += s.Bounds().Dx() + gap
	}
	out, x := image.NewNRGBA(image.Rect(0, 0, width, shots[0].Bounds().Dy())), 0
	for _, s := range shots {
		draw.Draw(out, image.Rect(x, 0, x+s.Bounds().Dx(), s.Bounds().Dy()), s, s.Bounds().Min, draw.Src)
		x += s.Bounds().Dx() + gap
	}
	return out
}
