// Package secrets does in its init what programs often do: it opens a file and
// a connection, and keeps a secret. It appends the name under which the process
// was started to the file init.log next to the program.
package secrets

import (
	"net"
	"os"
	"path/filepath"
)

// Key, File and Conn exist in every process that runs this init.
var (
	Key  string
	File *os.File
	Conn net.Conn
)

func init() {
	path, err := os.Executable()
	must(err)
	File, err = os.OpenFile(filepath.Join(filepath.Dir(path), "init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(err)
	_, err = File.WriteString(os.Args[0] + "\n")
	must(err)
	Conn, err = net.Dial("udp", "127.0.0.1:9") // sends nothing
	must(err)
	Key = "secret"
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
