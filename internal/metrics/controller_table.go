package metrics

import "github.com/prometheus/client_golang/prometheus"

// controllerMetric is a line of the controller's table; the order is that of the reference.
type controllerMetric uint8

const (
	zoneHealth controllerMetric = iota
	zoneSize
	zoneUnhealthy
	nodeEvictions
	nodeUpdates
	allUpdates
	podDeletions
	podDeletionTime
	zoneState
	zoneRate
	zoneWaiting
	nodes
	boundPods
	keptPods
	podTimers
	renewals
	suspects
	breakerOpen
	budgetExceeded
	leader
	replacing
	decisions
	requests
	requestWait
	requestTime
	eventsDropped
	controllerLinesDropped
	configOfController
	configSinceOfController
	configReloadsOfController
	configInfoOfController
	controllerBuildInfo
)

// Upper bounds in seconds. Metrics of Kubernetes' own controllers have their buckets, so that
// dashboards continue to work.
var (
	nodeUpdateBuckets = prometheus.ExponentialBuckets(0.001, 4, 8)
	allUpdateBuckets  = prometheus.ExponentialBuckets(0.01, 4, 8)
	deletionBuckets   = []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240}
	requestBuckets    = []float64{1e-3, 5e-3, 25e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60, 300}
)

// Labels that several of the controller's metrics have.
var (
	ofZone  = label{"zone", "region/zone, empty for nodes without either"}
	ofClass = label{"class", "protect, evict, repair, tidy"}
)

var controllerTable = [...]definition{
	zoneHealth: {"node_collector_zone_health", gauge, []label{ofZone}, nil,
		"Percentage of the zone's nodes that are ready, 0 to 100."},
	zoneSize: {"node_collector_zone_size", gauge, []label{ofZone}, nil,
		"Nodes of the zone, without those that are excluded from disruption checks."},
	zoneUnhealthy: {"node_collector_unhealthy_nodes_in_zone", gauge, []label{ofZone}, nil,
		"Nodes of the zone that are not ready."},
	nodeEvictions: {"node_collector_evictions_total", counter, []label{ofZone}, nil,
		"Nodes tainted NoExecute because they are not ready, or emptied in the mode without taints. A swap of the two taints is not counted."},
	nodeUpdates: {"node_collector_update_node_health_duration_seconds", histogram, nil, nodeUpdateBuckets,
		"Time from queueing to the answer of the API server, for requests about the health of a node: conditions, taints, live reads of leases."},
	allUpdates: {"node_collector_update_all_nodes_health_duration_seconds", histogram, nil, allUpdateBuckets,
		"Time of one decision round, which covers whatever is due at that moment. There are no passes over all nodes."},
	podDeletions: {"taint_eviction_controller_pod_deletions_total", counter, nil, nil,
		"Pods deleted for a NoExecute taint, or with their node in the mode without taints."},
	podDeletionTime: {"taint_eviction_controller_pod_deletion_duration_seconds", histogram, nil, deletionBuckets,
		"Time from the decision to evict a pod until it was deleted: queueing and all requests."},
	zoneState: {"plimsoll_controller_zone_state", gauge, []label{ofZone, {"state", "Normal, PartialDisruption, FullDisruption"}}, nil,
		"1 for the state that the zone is in, 0 for the others."},
	zoneRate: {"plimsoll_controller_zone_rate", gauge, []label{ofZone}, nil,
		"Rate of nodes per second at which the zone is tainted NoExecute at present."},
	zoneWaiting: {"plimsoll_controller_zone_queued_nodes", gauge, []label{ofZone}, nil,
		"Nodes of the zone queued to be tainted NoExecute."},
	nodes: {"plimsoll_controller_nodes", gauge, nil, nil,
		"Watched nodes."},
	boundPods: {"plimsoll_controller_pods", gauge, nil, nil,
		"Watched pods that are bound to a node."},
	keptPods: {"plimsoll_controller_evicted_pods", gauge, nil, nil,
		"Pods evicted by agents, with objects that are kept until --evicted-pod-ttl has passed."},
	podTimers: {"plimsoll_controller_scheduled_pod_evictions", gauge, nil, nil,
		"Pods with a scheduled taint-based eviction."},
	renewals: {"plimsoll_controller_lease_renewals_observed_total", counter, nil, nil,
		"Observed renewals of node leases."},
	suspects: {"plimsoll_controller_suspected_nodes", gauge, nil, nil,
		"Nodes without a heartbeat within the grace period, but not Unknown yet: a live read of their lease is due, or the breaker is open."},
	breakerOpen: {"plimsoll_controller_breaker_open", gauge, nil, nil,
		"1 while so many nodes lost their heartbeat at once that none of them becomes Unknown."},
	budgetExceeded: {"plimsoll_controller_max_unhealthy_exceeded", gauge, nil, nil,
		"1 while more nodes are unready than --max-unhealthy allows, and until --max-unhealthy-cooldown has passed after that."},
	leader: {"plimsoll_controller_leader", gauge, nil, nil,
		"1 while this replica is the leader, else 0."},
	replacing: {"plimsoll_controller_replacing", gauge, nil, nil,
		"1 while decisions are carried out, 0 while they are only reported: mode observe, a dry run, or another controller still writes."},
	decisions: {"plimsoll_controller_decisions_total", counter, []label{{"decision", "as in the decision log"}, {"dry_run", "true: not carried out"}}, nil,
		"Decisions, carried out or not."},
	requests: {"plimsoll_controller_requests_total", counter, []label{ofClass, {"result", "ok, declined, failed"}}, nil,
		"Completed requests to the API server by class, most urgent first. declined: the object is gone or has changed, or a PodDisruptionBudget forbids the eviction; this is not an error. Lists and watches are not counted."},
	requestWait: {"plimsoll_controller_request_wait_seconds", histogram, []label{ofClass}, requestBuckets,
		"Time that a request waited because of --kube-api-qps."},
	requestTime: {"plimsoll_controller_request_duration_seconds", histogram, []label{ofClass}, requestBuckets,
		"Time that the API server took to answer a request."},
	eventsDropped: {"plimsoll_controller_events_dropped_total", counter, nil, nil,
		"Events that were dropped because of --event-qps."},
	controllerLinesDropped: {"plimsoll_log_lines_dropped_total", counter, nil, nil,
		"Lines of the log and of the decision log that were dropped because standard error was read too slowly."},
	configOfController: configSuccessful, configSinceOfController: configSince, configReloadsOfController: configReloads, configInfoOfController: configInfo,
	controllerBuildInfo: {"plimsoll_build_info", gauge, []label{{"version", "of the release"}, {"revision", "of the source"}, {"goversion", "of the compiler"}}, nil,
		"1. The labels describe the running program."},
}
