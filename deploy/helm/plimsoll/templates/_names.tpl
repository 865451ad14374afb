{{/* Names and labels of the objects. */}}

{{- define "plimsoll.fullname" -}}
{{- default "plimsoll" .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "plimsoll.agent" -}}{{ include "plimsoll.fullname" . }}-agent{{- end }}
{{- define "plimsoll.controller" -}}{{ include "plimsoll.fullname" . }}-controller{{- end }}
{{- define "plimsoll.cleanup" -}}{{ include "plimsoll.fullname" . }}-cleanup{{- end }}
{{- define "plimsoll.test" -}}{{ include "plimsoll.fullname" . }}-test{{- end }}

{{- define "plimsoll.config-check" -}}{{ include "plimsoll.fullname" . }}-config-check{{- end }}

{{/* The ServiceAccount of agents or controllers. */}}
{{- define "plimsoll.account" -}}
{{- default (include (printf "plimsoll.%s" .component) .root) (index .root.Values .component).serviceAccount.name -}}
{{- end }}

{{/*
Labels and annotations of an object: those of the chart, the common ones of the values, and those
that are given here, which have precedence over the common ones. The schema refuses those of the chart as values.
*/}}
{{- define "plimsoll.labels" -}}
app.kubernetes.io/name: plimsoll
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with mergeOverwrite dict (default dict .root.Values.commonLabels) (default dict .labels) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "plimsoll.metadata" -}}
labels:
  {{- include "plimsoll.labels" . | nindent 2 }}
{{- with mergeOverwrite dict (default dict .root.Values.commonAnnotations) (default dict .annotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A selector can not be changed later: nothing of the version is in it. */}}
{{- define "plimsoll.selector" -}}
app.kubernetes.io/name: plimsoll
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/*
The labels and annotations of a pod that the values give: common ones, those of every pod, those of
the pods of this component.
*/}}
{{- define "plimsoll.pod.labels" -}}
{{- $own := default dict (index .root.Values .component) }}
{{- include "plimsoll.selector" . }}
{{- /* Without the chart's version, which alone is no reason for another pod. */}}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- with mergeOverwrite dict (default dict .root.Values.commonLabels) (default dict .root.Values.podLabels) (default dict $own.podLabels) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "plimsoll.pod.annotations" -}}
{{- $own := default dict (index .root.Values .component) }}
{{- with mergeOverwrite dict (default dict .root.Values.podAnnotations) (default dict $own.podAnnotations) }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/*
The image of agents or controllers: an empty field has the value of `image`. A tag of its
own comes without the digest of another image.
*/}}
{{- define "plimsoll.image" -}}
{{- $common := .root.Values.image -}}
{{- $own := default dict (index .root.Values .component).image -}}
{{- $digest := ternary $own.digest (default $common.digest $own.digest) (not (empty $own.tag)) -}}
image: {{ default $common.repository $own.repository }}{{ if $digest }}@{{ $digest }}{{ else }}:{{ coalesce $own.tag $common.tag .root.Chart.AppVersion }}{{ end }}
imagePullPolicy: {{ default $common.pullPolicy $own.pullPolicy }}
{{- end }}
