// Worker is a program for Options.WorkerPath.
package main

import "github.com/seed-72ea4aab/vault/jsruntime"

func main() { jsruntime.WorkerMain() }
