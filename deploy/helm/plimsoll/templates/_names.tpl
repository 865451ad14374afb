{{/* What everything is called, and by which labels it is found. */}}

{{- define "plimsoll.fullname" -}}
{{- default "plimsoll" .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "plimsoll.agent" -}}{{ include "plimsoll.fullname" . }}-agent{{- end }}
{{- define "plimsoll.controller" -}}{{ include "plimsoll.fullname" . }}-controller{{- end }}
{{- define "plimsoll.cleanup" -}}{{ include "plimsoll.fullname" . }}-cleanup{{- end }}

{{- define "plimsoll.config-check" -}}{{ include "plimsoll.fullname" . }}-config-check{{- end }}

{{- define "plimsoll.labels" -}}
app.kubernetes.io/name: plimsoll
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A selector can not be changed later: nothing of the version is in it. */}}
{{- define "plimsoll.selector" -}}
app.kubernetes.io/name: plimsoll
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Of a pod: without the chart's version, which alone is no reason for another pod. */}}
{{- define "plimsoll.pod.labels" -}}
{{ include "plimsoll.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "plimsoll.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
A file of deploy/rbac or deploy/admission with the names of this release. The
namespace, the accounts and what begins with plimsoll- are renamed; the ConfigMap
plimsoll-arming is not, because agents look for it by that name.
*/}}
{{- define "plimsoll.renamed" -}}
{{- $text := .text | replace "plimsoll-system" "\x01" | replace "plimsoll-arming" "\x02" -}}
{{- $text = regexReplaceAll "\\bplimsoll-" $text (printf "%s-" (include "plimsoll.fullname" .root)) -}}
{{- $text | replace "\x01" .root.Release.Namespace | replace "\x02" "plimsoll-arming" -}}
{{- end }}

{{/*
"true" for a namespace that the chart does not make: that of the release, which who installs
makes, and one that is there already, such as that of records which survived another release.
*/}}
{{- define "plimsoll.namespace.given" -}}
{{- $there := lookup "v1" "Namespace" "" .name | default dict }}
{{- $marks := dig "metadata" "annotations" dict $there }}
{{- $ours := and (eq (default "" (index $marks "meta.helm.sh/release-name")) .root.Release.Name) (eq (default "" (index $marks "meta.helm.sh/release-namespace")) .root.Release.Namespace) }}
{{- if or (eq .name .root.Release.Namespace) (and $there (not $ours)) }}true{{ end }}
{{- end }}

{{/* Its objects, comments and all, with our labels. */}}
{{- define "plimsoll.objects" -}}
{{- $labels := include "plimsoll.labels" .root | indent 4 -}}
{{- range $object := splitList "\n---\n" (include "plimsoll.renamed" .) }}
{{- $name := regexFind "(?m)^  name: .*$" $object | trimPrefix "  name: " }}
{{- if not (and (regexMatch "(?m)^kind: Namespace$" $object) (or $.namespacesMade (include "plimsoll.namespace.given" (dict "root" $.root "name" $name)))) }}
---
{{ regexReplaceAllLiteral "(?m)^metadata:$" $object (printf "metadata:\n  labels:\n%s" $labels) | trim }}
{{- end }}
{{- end }}
{{- end }}
