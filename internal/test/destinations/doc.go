// Package destinations tests what happens to data on its way: rules that limit the use of
// a token to destinations, in calls of proxies and through the forward proxy, and the
// removal of sent data from responses.
package destinations
