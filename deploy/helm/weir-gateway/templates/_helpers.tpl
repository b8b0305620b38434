{{- define "weir-gateway.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) }}{{ $name = printf "%s-%s" $name .Chart.Name }}{{ end -}}
{{- $name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "weir-gateway.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir-gateway.metadata" -}}
name: {{ include "weir-gateway.fullname" . }}
{{ include "weir-gateway.labels" . }}
{{- end }}

{{- define "weir-gateway.labels" -}}
labels:
  {{- include "weir-gateway.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "weir-gateway.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "weir-gateway.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end }}

{{- /* The configuration with `drain`, which the pod's grace period follows. */}}
{{- define "weir-gateway.configuration" -}}
{{- $configuration := deepCopy .Values.configuration -}}
{{- if hasKey $configuration "drain" }}{{ fail "configuration.drain: set drain.delaySeconds and drain.timeoutSeconds instead" }}{{ end -}}
{{- if ge (int .Values.drain.delaySeconds) (int .Values.drain.timeoutSeconds) }}{{ fail "drain.timeoutSeconds must be greater than drain.delaySeconds" }}{{ end -}}
{{- $delay := printf "%ds" (int .Values.drain.delaySeconds) -}}
{{- $timeout := printf "%ds" (int .Values.drain.timeoutSeconds) -}}
{{- $_ := set $configuration "drain" (dict "delay" $delay "timeout" $timeout) -}}
{{- toYaml $configuration -}}
{{- end }}
