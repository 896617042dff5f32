package pgtest

import (
	"bufio"
	"database/sql"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const envChild = "PGTEST_CHILD"

// TestMain lets this binary run as its own child: a process that starts a
// cluster, prints its address and hangs.
func TestMain(m *testing.M) {
	if os.Getenv(envChild) == "" {
		os.Exit(m.Run())
	}
	cluster, err := Start()
	if err != nil {
		println("failed:", err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString(cluster.URL + "\n")
	select {}
}

func TestSchemasAreSeparate(t *testing.T) {
	t.Parallel()
	first, second := URL(t), URL(t)
	for _, own := range []string{first, second} {
		db := must.Get(sql.Open("postgres", own))(t)
		defer db.Close()
		if _, err := db.Exec("CREATE TABLE once (n int)"); err != nil {
			t.Errorf("the schema is not empty: %v", err)
		}
	}
}

// TestAloneIsPrivate compares the two servers of this process. They are one unless
// EnvServer is set.
func TestAloneIsPrivate(t *testing.T) {
	t.Parallel()
	var hosts [2]string
	for i, address := range []string{URL(t), Alone(t)} {
		u := must.Get(url.Parse(address))(t)
		hosts[i] = u.Query().Get("host") + u.Host
	}
	if shared := os.Getenv(EnvServer) != ""; shared == (hosts[0] == hosts[1]) {
		t.Errorf("the servers are at %q", hosts)
	}
}

func TestServerIsDurable(t *testing.T) {
	t.Parallel()
	db := must.Get(sql.Open("postgres", URL(t)))(t)
	defer db.Close()
	for _, setting := range []string{"fsync", "synchronous_commit"} {
		var value string
		must.Do(t, db.QueryRow("SELECT current_setting($1)", setting).Scan(&value))
		if value != "on" {
			t.Errorf("%s is %s, want on", setting, value)
		}
	}
}

func TestServerOutlivesTheGarbageCollector(t *testing.T) {
	t.Parallel()
	own := URL(t)
	runtime.GC()
	runtime.GC() // queues the finalizers
	db := must.Get(sql.Open("postgres", own))(t)
	defer db.Close()
	if err := db.Ping(); err != nil {
		t.Error(err)
	}
}

func TestStopRemovesEverything(t *testing.T) {
	t.Parallel()
	URL(t) // skips, or fails, where there is no server
	cluster, err := Start()
	if err != nil {
		t.Skipf("only a server that runs elsewhere is available: %v", err)
	}
	if err := cluster.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folderOf(t, cluster.URL)); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestClusterDiesWithItsProcess(t *testing.T) {
	t.Parallel()
	URL(t)
	self := must.Get(os.Executable())(t)
	child := exec.Command(self)
	child.Env = append(os.Environ(), envChild+"=1", EnvServer+"=")
	out := must.Get(child.StdoutPipe())(t)
	must.Do(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		child.Wait()
		t.Skip("only a server that runs elsewhere is available")
	}
	folder := folderOf(t, strings.TrimSpace(line))
	must.Get(os.Stat(folder))(t)
	must.Do(t, child.Process.Kill())
	child.Wait()

	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	deadline := time.After(time.Minute)
	for {
		if _, err := os.Stat(folder); os.IsNotExist(err) {
			return
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatal("the cluster outlived its process")
		}
	}
}

func folderOf(t *testing.T, server string) string {
	t.Helper()
	u := must.Get(url.Parse(server))(t)
	return u.Query().Get("host")
}
