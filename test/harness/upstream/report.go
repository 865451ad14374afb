package main

import (
	"expvar"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
)

// report serves measurements of the process on 127.0.0.1 until its exit: GET /debug/vars for
// allocations, /debug/pprof for profiles. POST /debug/gc collects garbage and releases free
// memory, so that afterwards the resident memory is the memory in use.
func report() (address string, err error) {
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
