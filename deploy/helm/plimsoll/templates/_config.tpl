{{/*
The configuration files: what follows from how the pods are made, then what the
values say, which wins.
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
  "stateFile" "/run/plimsoll/state.json"
  "heartbeatNamespace" .Release.Namespace
  "healthzBindAddress" (ternary "127.0.0.1:10350" "0.0.0.0:10350" .Values.hostNetwork)
-}}
{{- /* Without a controller that evicts for them, agents ask for soft evictions themselves. */ -}}
{{- if and .Values.agent.config.evictionSoft (ne (include "plimsoll.replaces" .) "true") -}}
{{- $_ := set $own "softEviction" "direct" -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.agent.config)) -}}
{{- end }}

{{/* Whether the controller carries out what agents ask for. */}}
{{- define "plimsoll.replaces" -}}
{{- and .Values.controller.enabled (eq (default "observe" .Values.controller.config.mode) "replace") (not .Values.controller.config.dryRun) -}}
{{- end }}

{{- define "plimsoll.controller.config" -}}
{{- $own := dict
  "apiVersion" "plimsoll.dev/v1alpha1"
  "kind" "ControllerConfiguration"
  "heartbeatNamespace" .Release.Namespace
  "leaderElectResourceName" (include "plimsoll.controller" .)
  "leaderElectResourceNamespace" .Release.Namespace
  "healthzBindAddress" (ternary "127.0.0.1:10360" "0.0.0.0:10360" .Values.hostNetwork)
-}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.controller.config)) -}}
{{- end }}

{{- define "plimsoll.port" -}}{{ regexFind "[0-9]+$" . }}{{- end }}

{{/*
How a kubelet asks whether the container is well. It asks the pod's address; who
listens on loopback only is asked there, which works in the host's network.
*/}}
{{- define "plimsoll.probe" -}}
httpGet:
  path: {{ .path }}
  port: {{ include "plimsoll.port" .address }}
  {{- if regexMatch "^(127\\.|localhost:)" .address }}
  host: 127.0.0.1
  {{- end }}
periodSeconds: 10
timeoutSeconds: 5
{{- end }}
