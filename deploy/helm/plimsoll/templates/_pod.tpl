{{/* Fields that are equal in the pods of agent, controller and Jobs. */}}

{{- define "plimsoll.pod.start" -}}
# Where a token is needed it is mounted below, with a shorter life than the automatic
# one: 3600 s and no extension.
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- end }}

{{- define "plimsoll.pod.env" -}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Bound to this pod: it is worth nothing once the pod is gone. */}}
{{- define "plimsoll.pod.token" -}}
- name: token
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end }}

{{- define "plimsoll.pod.token.mount" -}}
- {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}

{{/*
What needs no root: controller and Jobs. A field that is null is left out, so that the platform
chooses.
*/}}
{{- define "plimsoll.pod.unprivileged" -}}
{{- $given := dict -}}
{{- range $field, $value := .Values.podSecurityContext -}}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $given $field $value }}{{ end -}}
{{- end -}}
securityContext:
  {{- toYaml $given | nindent 2 }}
{{- end }}

{{/* Nothing but the network, and what is mounted to be read. */}}
{{- define "plimsoll.container.unprivileged" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The pods of Jobs. */}}
{{- define "plimsoll.job.metadata" -}}
labels:
  {{- include "plimsoll.pod.labels" . | nindent 2 }}
{{- with include "plimsoll.pod.annotations" . }}
annotations:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "plimsoll.job.start" -}}
tolerations:
  - operator: Exists
nodeSelector:
  kubernetes.io/os: linux
restartPolicy: Never
# With a lower priority an agent could evict this pod under pressure.
priorityClassName: {{ .Values.agent.priorityClassName }}
{{ include "plimsoll.pod.start" . }}
{{ include "plimsoll.pod.unprivileged" . }}
{{- end }}

{{- define "plimsoll.job.container" -}}
securityContext:
  {{- include "plimsoll.container.unprivileged" . | nindent 2 }}
resources:
  requests: {cpu: 10m, memory: 32Mi}
  limits: {memory: 128Mi}
{{- end }}
