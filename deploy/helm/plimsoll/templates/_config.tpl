{{/*
The configuration files: values that follow from the pods, then those of the user, which have
precedence.
*/}}
{{- define "plimsoll.agent.config" -}}
{{- $host := .Values.agent.host -}}
{{- $own := dict
  "apiVersion" "plimsoll.dev/v1alpha1"
  "kind" "AgentConfiguration"
  "hostRoot" "/host"
  "procRoot" (ternary "/proc" "/host/proc" .Values.agent.hostPID)
  "cgroupRoot" (printf "/host%s" $host.cgroup)
  "rootDir" $host.kubelet
  "podLogsDir" $host.podLogs
  "kubeletConfig" (printf "%s/config.yaml" $host.kubelet)
  "stateFile" "/run/plimsoll/state.json"
  "recordingDir" "/var/lib/plimsoll/recording"
  "decisionLogDir" "/var/lib/plimsoll/decisions"
  "heartbeatNamespace" .Release.Namespace
  "evictionRecordNamespace" (printf "%s-evictions" (include "plimsoll.fullname" .))
  "evictionRecordOwner" (ternary "none" "node" (eq (include "plimsoll.expires" .) "true"))
  "healthzBindAddress" (ternary "127.0.0.1:10350" "0.0.0.0:10350" .Values.hostNetwork)
  "healthSocket" "/run/plimsoll/health.sock"
-}}
{{- /* Without a controller that evicts for them, agents post soft evictions themselves. */ -}}
{{- if and .Values.agent.config.evictionSoft (ne (include "plimsoll.replaces" .) "true") -}}
{{- $_ := set $own "softEviction" "direct" -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.agent.config)) -}}
{{- end }}

{{/* Whether the controller carries out the requests of agents. */}}
{{- define "plimsoll.replaces" -}}
{{- and .Values.controller.enabled (eq (default "observe" .Values.controller.config.mode) "replace") (not .Values.controller.config.dryRun) -}}
{{- end }}

{{/* Whether the controller deletes the records of nodes that are gone. */}}
{{- define "plimsoll.expires" -}}
{{- $config := .Values.controller.config -}}
{{- $never := and (hasKey $config "evictionRecordNamespace") (not $config.evictionRecordNamespace) -}}
{{- and .Values.controller.enabled (not $config.dryRun) (not $never) -}}
{{- end }}

{{- define "plimsoll.controller.config" -}}
{{- $own := dict
  "apiVersion" "plimsoll.dev/v1alpha1"
  "kind" "ControllerConfiguration"
  "heartbeatNamespace" .Release.Namespace
  "evictionRecordNamespace" (printf "%s-evictions" (include "plimsoll.fullname" .))
  "leaderElectResourceName" (include "plimsoll.controller" .)
  "leaderElectResourceNamespace" .Release.Namespace
  "healthzBindAddress" (ternary "127.0.0.1:10360" "0.0.0.0:10360" .Values.hostNetwork)
  "healthSocket" "/run/plimsoll/health.sock"
-}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.controller.config)) -}}
{{- end }}

{{/*
The fields that a running program applies after a change of its file, in the order of
docs/reference/configuration.md. A change of any other field replaces the pods.
*/}}
{{- define "plimsoll.agent.live" -}}
evictionHard evictionSoft evictionSoftGracePeriod evictionMinimumReclaim mergeDefaultEvictionSettings evictionMaxPodGracePeriod evictionPressureTransitionPeriod enforceNodeAllocatable localStorageCapacityIsolation evictionChoice earlyEviction earlyEvictionHorizon maxFillRate verbosity evictionsPerHour maxIneffectiveEvictions ineffectiveEvictionBackoff ownerBackoff localStorageLimits
{{- end }}

{{- define "plimsoll.controller.live" -}}
nodeMonitorPeriod nodeMonitorGracePeriod nodeStartupGracePeriod podEvictionTimeout nodeEvictionRate secondaryNodeEvictionRate largeClusterSizeThreshold unhealthyZoneThreshold fullyDisruptedRate maxUnhealthy maxUnhealthyCooldown pauseDisruptedZones liveLeaseReads liveLeaseReadsPerSecond outageGrace massFailureMinNodes massFailureFraction massFailureWindow massFailureMaxDuration untaintRate agentAliveGrace agentGrace maxAutonomyDuration evictedPodTTL nodeRenewInterval verbosity
{{- end }}

{{/* The digest of the fields of a configuration that are read at start only. */}}
{{- define "plimsoll.config.digest" -}}
{{- $fixed := fromYaml .config -}}
{{- range splitList " " .live }}{{ $_ := unset $fixed . }}{{ end -}}
{{- toYaml $fixed | sha256sum -}}
{{- end }}

{{- define "plimsoll.port" -}}{{ regexFind "[0-9]+$" . }}{{- end }}

{{/*
The probes of a container, which run the program in it. It connects to a Unix socket: no
other pod can reach it, whatever the network allows. The runtime needs more processor time
to start it than an idle agent: few probes, with much time. A node without processor time
starts no process for minutes. That is no reason for a restart, which needs more of it.
*/}}
{{- define "plimsoll.probes" -}}
startupProbe:
  {{- include "plimsoll.probe" (dict "check" "livez" "socket" . "period" 5 "failures" 60) | nindent 2 }}
livenessProbe:
  {{- include "plimsoll.probe" (dict "check" "livez" "socket" . "period" 60 "failures" 5) | nindent 2 }}
readinessProbe:
  {{- include "plimsoll.probe" (dict "check" "readyz" "socket" . "period" 60 "failures" 2) | nindent 2 }}
{{- end }}
{{- define "plimsoll.probe" -}}
exec:
  command: [/plimsoll, health, {{ .check }}, --socket={{ .socket }}, --timeout=20s]
periodSeconds: {{ .period }}
timeoutSeconds: 30
failureThreshold: {{ .failures }}
{{- end }}
