// Package runtimepods converts the data of the container runtime to pods, for a node that has not read any from the
// API server. Package agentpods converts pods of core/v1: a client that reads those links no runtime.
package runtimepods
