{{/* Fields that are equal in the pods of agent, controller and cleanup. */}}

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

{{/* Nothing but the network, and what is mounted to be read. */}}
{{- define "plimsoll.container.unprivileged" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
{{- with .Values.nonRootUser }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
{{- end }}
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}
