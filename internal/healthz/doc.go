// Package healthz serves what the agent says of itself over HTTP: whether it
// lives, whether it is ready, and its metrics.
//
// Duties and invariants:
//
//   - A request never waits for the node, the runtime or the API server, and
//     nobody who looks after the node waits for a request: checks read what
//     others found and stored ([Finding], [Pulse]).
//   - What was not found out yet is no success: a check fails until somebody
//     has looked.
//   - Liveness speaks of the agent alone, since who asks will restart it;
//     readiness of what it needs of others, too.
//   - Clients are not trusted: their number, the size of their headers and the
//     time they may take are bounded, so that none holds memory or a goroutine
//     for long. Above a bound the oldest connection without a request is closed
//     for a new one ([Limits]); none waits behind others.
//   - Probes come in through a Unix socket, which other pods can not reach
//     ([ListenSocket]). Over TCP, metrics and details need a token with a right to
//     them ([Access]).
//   - Requests without a right cost the API server a bounded number of reviews.
package healthz
