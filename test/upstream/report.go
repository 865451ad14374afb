package main

import (
	_ "expvar" // serves /debug/vars: what was allocated so far
	"net"
	"net/http"
	_ "net/http/pprof" // serves /debug/pprof: where the time goes
	"runtime/debug"
)

// report serves what the process knows of itself on 127.0.0.1, until it ends.
// POST /debug/gc collects garbage and gives free memory back, so that what is
// resident afterwards is what is in use.
func report() (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	http.HandleFunc("POST /debug/gc", func(http.ResponseWriter, *http.Request) { debug.FreeOSMemory() })
	go func() { _ = http.Serve(listener, nil) }()
	return listener.Addr().String(), nil
}
