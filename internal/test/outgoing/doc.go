// Package outgoing contains only tests. Programs that others wrote send data through
// the forward proxy without holding it, over links with a delay.
package outgoing
