//go:build unix

package execkey

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a program the leader of a group, which the programs that it starts
// belong to.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a program that was not waited for yet, and the programs that it has
// started.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
