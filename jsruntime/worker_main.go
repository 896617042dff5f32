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
// A process that was started as a worker becomes one because it imports this
// package, before main begins. WorkerMain runs only if the program was started
// by hand. It prints what the program is for and exits with status 2.
func WorkerMain() {
	_, _ = os.Stderr.WriteString("This program runs the code of tenants. Set its path as WorkerPath in jsruntime.Options.\n")
	os.Exit(2)
}
