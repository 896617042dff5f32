package jsruntime

import "os"

// WorkerMain is the main function of a program for [Options.WorkerPath]:
//
//	package main
//
//	import "github.com/seed-72ea4aab/vault/jsruntime"
//
//	func main() { jsruntime.WorkerMain() }
//
// Importing this package is what makes a process that was started as a worker
// one, before main begins. WorkerMain is reached only when the program was
// started by hand; it says what the program is for, and exits with status 2.
func WorkerMain() {
	_, _ = os.Stderr.WriteString("This program runs the code of tenants. Set its path as WorkerPath in jsruntime.Options.\n")
	os.Exit(2)
}
