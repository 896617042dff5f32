// Package faults contains only tests. They check what a vault guarantees when
// things fail. An acknowledged write survives a killed process and a database
// outage. Callers get a clear error during the outage. No secret value appears
// in a file, an error or a log.
package faults
