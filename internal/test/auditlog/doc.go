// Package auditlog tests the log of a tenant as a caller sees it: its entries, its
// retention, and the evidence that it was not altered.
package auditlog
