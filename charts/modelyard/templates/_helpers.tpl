{{/* The name of everything in the release: `modelyard`, as in deploy/, for a release of that name. */}}
{{- define "modelyard.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* Names that users choose are quoted wherever they stand: YAML takes the namespace 12e4567 for a number. */}}

{{/* Never `app.kubernetes.io/managed-by: modelyard`: by that label the operator finds its children. */}}
{{- define "modelyard.labels" -}}
app.kubernetes.io/component: operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/name: modelyard
{{- end }}

{{- define "modelyard.page.labels" -}}
app.kubernetes.io/component: page
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/name: modelyard
{{- end }}

{{- define "modelyard.account" -}}
{{- .Values.serviceAccount.name | default (include "modelyard.name" .) -}}
{{- end }}

{{- define "modelyard.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "modelyard.subjects" -}}
- kind: ServiceAccount
  name: {{ include "modelyard.account" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}

{{/* Of what `helm uninstall` must not delete; takes the part of the values with `keep`. */}}
{{- define "modelyard.kept" -}}
{{- if .keep -}}
annotations:
  helm.sh/resource-policy: keep
{{- end -}}
{{- end }}
