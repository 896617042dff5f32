//go:build long

package elements_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/evanw/esbuild/pkg/api"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultclient"
)

// frameworks are forms as a developer writes them. Each shows the brand in #brand, the
// number of submit events in #submits, and has a function pay.
var frameworks = map[string]string{
	"plain": `
document.getElementById('root').innerHTML = '<output id="brand"></output><output id="submits">0</output><vault-card api-key="KEY" container="/pci/orders/7/"></vault-card>';
const card = document.querySelector('vault-card');
card.texts = {labels: {number: 'N'}};
card.look = {base: {fontSize: '21px'}};
card.authorize = (nonce) => fetch('/nonce', {method: 'POST', body: nonce});
card.addEventListener('change', (event) => { if (event.detail.brand) document.getElementById('brand').textContent = event.detail.brand; });
card.addEventListener('submit', () => { document.getElementById('submits').textContent++; });
window.pay = () => card.tokenize();`,
	"react": `
import {useRef, useState} from 'react';
import {createRoot} from 'react-dom/client';
function Form() {
  const card = useRef(null);
  const [brand, setBrand] = useState('');
  const [submits, setSubmits] = useState(0);
  window.pay = () => card.current.tokenize();
  return <div><output id="brand">{brand}</output><output id="submits">{submits}</output>
    <vault-card ref={card} api-key="KEY" container="/pci/orders/7/" texts={{labels: {number: 'N'}}} look={{base: {fontSize: '21px'}}}
      authorize={(nonce) => fetch('/nonce', {method: 'POST', body: nonce})}
      onchange={(event) => { if (event.detail.brand) setBrand(event.detail.brand); }} onsubmit={() => setSubmits((n) => n + 1)} /></div>;
}
createRoot(document.getElementById('root')).render(<Form />);`,
	"vue": `
import {createApp, reactive, ref} from 'vue/dist/vue.esm-bundler.js';
const app = createApp({
  setup() {
    const card = ref(null), brand = ref(''), submits = ref(0);
    window.pay = () => card.value.tokenize();
    return {card, brand, submits, texts: reactive({labels: {number: 'N'}}), look: reactive({base: {fontSize: '21px'}}),
      authorize: (nonce) => fetch('/nonce', {method: 'POST', body: nonce}),
      changed: (event) => { if (event.detail.brand) brand.value = event.detail.brand; }};
  },
  template: '<output id="brand">{{ brand }}</output><output id="submits">{{ submits }}</output>' +
    '<vault-card ref="card" api-key="KEY" container="/pci/orders/7/" :texts="texts" :look="look" :authorize="authorize" @change="changed" @submit="submits++"></vault-card>',
});
app.config.compilerOptions.isCustomElement = (tag) => tag.startsWith('vault-');
app.mount('#root');`,
}

// TestFrameworks types a card into forms of plain HTML, React 19 and Vue 3, from npm. The
// state of the framework changes with each event, so it renders again while the card is typed.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Fatal("npm is missing; install npm, because React and Vue come from there")
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), npm, "install", "--prefix", ".", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock", "--prefer-offline", "--loglevel=error", "react@19.3.1", "react-dom@19.3.1", "vue@3.5.45")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, source := range frameworks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.policy = "" // Vue compiles its template in the page
			shop := w.shop.Config.Handler
			ours := authorize(must.Get(vaultclient.New(w.api.URL, w.PrivateKey, nil))(t), func(*http.Request) string { return "/pci/orders/" })
			built := api.Build(api.BuildOptions{
				Stdin:  &api.StdinOptions{Contents: strings.ReplaceAll(source, "KEY", w.PublicKey), ResolveDir: dir, Loader: api.LoaderJSX},
				Bundle: true, Format: api.FormatIIFE, JSX: api.JSXAutomatic,
				Define: map[string]string{"process.env.NODE_ENV": `"production"`, "__VUE_OPTIONS_API__": "true", "__VUE_PROD_DEVTOOLS__": "false", "__VUE_PROD_HYDRATION_MISMATCH_DETAILS__": "false"},
			})
			for _, m := range built.Errors {
				t.Fatal(m.Text)
			}
			w.shop.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/app.js":
					rw.Header().Set("Content-Type", "text/javascript; charset=utf-8")
					_, _ = rw.Write(built.OutputFiles[0].Contents)
				case "/nonce":
					ours.ServeHTTP(rw, r)
				default:
					shop.ServeHTTP(rw, r)
				}
			})
			page := w.page(`<div id="root"></div><script src="/app.js"></script>`)
			p := w.load(desktop, page)
			p.Await(`document.querySelector('vault-card') !== null`)
			p.fill(visa)
			p.Await(`document.getElementById('brand').textContent === 'visa'`)
			p.Press(kb.Enter)
			p.Await(`document.getElementById('submits').textContent === '1'`)
			must.Same(t, "texts", "N", p.frame().Value(`document.querySelector('label').textContent`))
			must.Same(t, "look", "21px", p.frame().Value(`getComputedStyle(document.getElementById('cc-number')).fontSize`))
			got := p.outcome(`pay()`)
			must.Contain(t, "the token", got, `"number":"XXXXXXXXXXXX4242"`)
			must.Contain(t, "where the shop's server allows it", got, `"containers":["/pci/orders/7/"]`)
		})
	}
}
