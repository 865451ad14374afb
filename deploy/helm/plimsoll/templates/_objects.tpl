{{/* The objects of deploy/rbac and deploy/admission, as those of this release. */}}

{{/*
A file with the names of this release. The namespace, the accounts and what begins with plimsoll- are
renamed; the ConfigMap plimsoll-arming is not, because agents read it by that name. An account has
a name of its own in the values. It stands where a file defines it, binds it, or recognises its
requests.
*/}}
{{- define "plimsoll.renamed" -}}
{{- $text := .text -}}
{{- range $component, $mark := dict "agent" "\x03" "controller" "\x04" -}}
{{- $account := printf "(kind: ServiceAccount\n(?:metadata:\n)? +name: |system:serviceaccount:plimsoll-system:)plimsoll-%s\\b" $component -}}
{{- $text = regexReplaceAll $account $text (printf "${1}%s" $mark) -}}
{{- end -}}
{{- $text = $text | replace "plimsoll-system" "\x01" | replace "plimsoll-arming" "\x02" -}}
{{- $text = regexReplaceAll "\\bplimsoll-" $text (printf "%s-" (include "plimsoll.fullname" .root)) -}}
{{- $text = $text | replace "\x01" .root.Release.Namespace | replace "\x02" "plimsoll-arming" -}}
{{- $text | replace "\x03" (include "plimsoll.account" (dict "root" .root "component" "agent")) | replace "\x04" (include "plimsoll.account" (dict "root" .root "component" "controller")) -}}
{{- end }}

{{/*
"true" for a namespace that the chart does not make: that of the release, which exists
before, and any other that exists already, such as that of records of an earlier release.
*/}}
{{- define "plimsoll.namespace.given" -}}
{{- $there := lookup "v1" "Namespace" "" .name | default dict }}
{{- $marks := dig "metadata" "annotations" dict $there }}
{{- $ours := and (eq (default "" (index $marks "meta.helm.sh/release-name")) .root.Release.Name) (eq (default "" (index $marks "meta.helm.sh/release-namespace")) .root.Release.Namespace) }}
{{- if or (eq .name .root.Release.Namespace) (and $there (not $ours)) }}true{{ end }}
{{- end }}

{{/* "true" for an object that the values exclude. */}}
{{- define "plimsoll.omitted" -}}
{{- if eq .kind "Namespace" }}
{{- if .namespacesMade }}true{{ else }}{{ include "plimsoll.namespace.given" . }}{{ end }}
{{- else if eq .kind "ServiceAccount" }}
{{- if not .account.create }}true{{ end }}
{{- else if regexMatch "Role" .kind }}
{{- if not .root.Values.rbac.create }}true{{ end }}
{{- end }}
{{- end }}

{{/*
The objects of a file, comments and all, with our labels and annotations. "component" has the account
of the file. "namespacesMade" omits its namespaces: another file has them.
*/}}
{{- define "plimsoll.objects" -}}
{{- $labels := include "plimsoll.labels" (dict "root" .root) | indent 4 -}}
{{- $account := dict -}}
{{- with .component }}{{ $account = (index $.root.Values .).serviceAccount }}{{ end -}}
{{- range $object := splitList "\n---\n" (include "plimsoll.renamed" .) }}
{{- $name := regexFind "(?m)^  name: .*$" $object | trimPrefix "  name: " }}
{{- $kind := regexFind "(?m)^kind: .*$" $object | trimPrefix "kind: " }}
{{- if not (include "plimsoll.omitted" (dict "root" $.root "kind" $kind "name" $name "account" $account "namespacesMade" $.namespacesMade)) }}
{{- $annotations := mergeOverwrite dict (default dict $.root.Values.commonAnnotations) (ternary (default dict $account.annotations) dict (eq $kind "ServiceAccount")) }}
{{- if $annotations }}
{{- $lines := printf "  annotations:\n%s" (toYaml $annotations | indent 4) }}
{{- if regexMatch "(?m)^  annotations:$" $object }}
{{- $object = regexReplaceAllLiteral "(?m)^  annotations:$" $object $lines }}
{{- else }}
{{- $object = regexReplaceAllLiteral "(?m)^metadata:$" $object (printf "metadata:\n%s" $lines) }}
{{- end }}
{{- end }}
---
{{ regexReplaceAllLiteral "(?m)^metadata:$" $object (printf "metadata:\n  labels:\n%s" $labels) | trim }}
{{- end }}
{{- end }}
{{- end }}
