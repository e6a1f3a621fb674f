{{- define "reseq.name" -}}
{{- $name := ternary .Release.Name (printf "%s-reseq" .Release.Name) (contains "reseq" .Release.Name) -}}
{{- .Values.fullnameOverride | default $name | trunc 45 | trimSuffix "-" -}}
{{- end }}

{{- define "reseq.selector" -}}
app.kubernetes.io/name: reseq
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Labels for the pods that accept messages: with an embedded Redis, one pod has all roles. */ -}}
{{- define "reseq.ingest" -}}
{{ include "reseq.selector" . }}
app.kubernetes.io/component: {{ ternary "all" "ingest" .Values.redis.embedded.enabled }}
{{- end }}

{{- /* Name and labels of a resource. Arguments: root, suffix of the name, more labels. */ -}}
{{- define "reseq.metadata" -}}
{{- with first . -}}
name: {{ include "reseq.name" . }}{{ index $ 1 }}
labels:
  {{- include "reseq.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
{{- with index . 2 }}{{- toYaml . | nindent 2 }}{{- end }}
{{- end }}

{{- define "reseq.scheme" }}{{ ternary "https" "http" (ne .Values.tls.secret "") }}{{ end }}

{{- /* What all pods have in common, also that of `helm test`. */ -}}
{{- define "reseq.pod" -}}
serviceAccountName: {{ include "reseq.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  { runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: { type: RuntimeDefault } }
imagePullSecrets: {{ toJson .Values.imagePullSecrets }}
{{- end }}

{{- define "reseq.container" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: [ALL] } }
{{- end }}
