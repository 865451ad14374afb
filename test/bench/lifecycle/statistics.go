package main

import (
	"expvar"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
)

// serveStatistics serves the statistics of this process on 127.0.0.1 until it ends, like
// test/harness/upstream: allocations at GET /debug/vars, CPU profiles at /debug/pprof. POST
// /debug/gc collects garbage and returns free memory, so that resident memory afterwards is
// memory in use.
func serveStatistics() (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	paths := http.NewServeMux()
	paths.Handle("/debug/vars", expvar.Handler())
	paths.HandleFunc("/debug/pprof/", pprof.Index)
	paths.HandleFunc("/debug/pprof/profile", pprof.Profile)
	paths.HandleFunc("POST /debug/gc", func(http.ResponseWriter, *http.Request) { debug.FreeOSMemory() })
	go func() { _ = http.Serve(listener, paths) }()
	return listener.Addr().String(), nil
}
