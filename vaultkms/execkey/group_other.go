//go:build !unix

package execkey

import "os/exec"

// ownGroup does nothing, because only Unix has groups of processes.
func ownGroup(*exec.Cmd) {}

// killGroup kills a program.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
