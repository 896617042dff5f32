// Package browser drives a real Chromium in tests. The tests of a package
// share one process, which starts with the first tab. Each tab has its own
// profile, like a private window.
//
// The program is $VAULT_TEST_CHROMIUM, or a Chromium or Chrome on the PATH.
// Without a browser, tests are skipped, or fail if VAULT_TEST_REQUIRE_CHROMIUM
// or CI is set.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	// EnvPath names a Chromium that is not on the PATH.
	EnvPath = "VAULT_TEST_CHROMIUM"
	// EnvRequire makes a missing Chromium a failure when it is set. So does CI.
	EnvRequire = "VAULT_TEST_REQUIRE_CHROMIUM"
)

// patience is the time limit of a wait for the browser, even on a slow
// machine.
const patience = 3 * time.Minute

// process is the Chromium that all tests of a package share.
var process struct {
	once sync.Once
	ctx  context.Context
	err  error
	stop func() error
}

// Main runs the tests of a package, stops the browser if they started it, and
// returns the exit code. A package that opens tabs calls it from TestMain.
func Main(m *testing.M) int {
	code := m.Run()
	if process.stop != nil {
		if err := process.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping the browser:", err)
			code = 1
		}
	}
	return code
}

// shared returns the context of the browser. The first call starts the
// browser.
func shared(t *testing.T) context.Context {
	t.Helper()
	process.once.Do(start)
	if process.err == nil {
		return process.ctx
	}
	if os.Getenv(EnvRequire) != "" || os.Getenv("CI") != "" {
		t.Fatalf("a Chromium is required: %v", process.err)
	}
	t.Skipf("no Chromium (%v); install one, for example with apt-get install chromium", process.err)
	return nil
}

// find returns the path of the program.
func find() (string, error) {
	if path := os.Getenv(EnvPath); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("chromium is not on the PATH, and %s is not set", EnvPath)
}

func start() {
	path, err := find()
	if err != nil {
		process.err = err
		return
	}
	temp, err := os.MkdirTemp("", "vault-browser-") // Chromium leaves files in its temporary folder
	if err != nil {
		process.err = err
		return
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), // creates a profile, and removes it
		chromedp.ExecPath(path), chromedp.Env("TMPDIR="+temp), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true),
	)
	ctx, stopBrowser := chromedp.NewContext(alloc)
	process.stop = func() error {
		stopBrowser()
		stopAlloc() // returns when the browser has exited
		return os.RemoveAll(temp)
	}
	process.ctx, process.err = ctx, chromedp.Do(ctx)
}
