// Package healthz serves the state of the agent over HTTP: its liveness, its readiness and its
// metrics.
//
// Duties and invariants:
//
//   - A request never waits for the node, the runtime or the API server, and the agent's loop never
//     waits for a request: checks read stored results ([Finding], [Pulse]).
//   - An unknown result is no success: a check fails until its first result.
//   - Liveness depends on the agent alone, since a failure causes its restart. Readiness also
//     depends on the services that it needs.
//   - Clients are not trusted: their number, the size of their headers and the duration of their
//     requests are bounded. None holds memory or a goroutine for long. Above a bound the oldest
//     connection without a request is closed for a new one ([Limits]); none waits behind others.
//   - Probes use a Unix socket, which other pods cannot reach ([ListenSocket]). Over TCP, metrics
//     and details need an authorised token ([Access]).
//   - Requests without authorisation cost the API server a bounded number of reviews.
package healthz
