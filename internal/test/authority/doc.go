// Package authority tests what callers and keys may do, and for how long: API keys and
// workloads of applications, and the keys of a vault and of tenants that others hold.
package authority
