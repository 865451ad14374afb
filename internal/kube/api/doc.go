// Package api is the client of the few resources of the Kubernetes API that Plimsoll reads and
// writes. It is client-go's REST client with the types below, and
// nothing else: client-go's clientset links and registers the types of every API group, which is
// half of a program (docs/internals/decisions/038).
package api
