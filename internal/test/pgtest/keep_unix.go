//go:build unix

package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// kept is a server that a shell runs in the background.
type kept struct {
	shell *exec.Cmd
	alive io.Closer // the shell's standard input; closing it ends the shell
}

// keep runs a script that starts a server in a folder. The folder is the
// script's first argument. The script prints "ready", or "failed" and the
// reason. Then it waits for the end of its input and stops the server. The
// input ends when we close the pipe or when this process dies, however it dies.
// The folder is then removed. If we are root, everything runs as the user of
// serverCredential.
func keep(dir, script string, args ...string) (*kept, error) {
	credential, err := serverCredential(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	whole := "trap '' HUP INT TERM\ndir=$1\n" + script + "\ncd / && rm -rf \"$dir\"\n"
	//nolint:noctx // the shell lives as long as its pipe
	k := &kept{shell: exec.Command("/bin/sh", append([]string{"-c", whole, "pgtest", dir}, args...)...)}
	k.shell.Dir = dir
	k.shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: credential}
	if err := k.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return k, nil
}

// start starts the shell and waits until it reports that the server is ready.
func (k *kept) start() error {
	in, inErr := k.shell.StdinPipe()
	out, outErr := k.shell.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return err
	}
	if err := k.shell.Start(); err != nil {
		return err
	}
	k.alive = in
	said := bufio.NewReader(out)
	if line, err := said.ReadString('\n'); err == nil && line == "ready\n" {
		return nil
	}
	err := in.Close()
	reason, _ := io.ReadAll(said)
	return errors.Join(fmt.Errorf("the server did not start: %s", strings.TrimSpace(string(reason))), err, k.shell.Wait())
}

// stop stops the server and waits until its folder is removed.
func (k *kept) stop() error { return errors.Join(k.alive.Close(), k.shell.Wait()) }

// serverCredential returns the user for the server, or nil for our own user. It
// makes that user the owner of the folder.
func serverCredential(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(superuser)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL cannot run as root, and there is no user %q to run it as", superuser)
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
}
