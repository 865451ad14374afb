package main

import (
	"expvar"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
)

// report serves what the process knows of itself on 127.0.0.1, until it ends:
// GET /debug/vars what it allocated, /debug/pprof where the time goes. POST
// /debug/gc collects garbage and gives free memory back, so that what is resident
// afterwards is what is in use.
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
