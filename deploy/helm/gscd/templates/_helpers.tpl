{{- define "gscd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "gscd.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "gscd.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "gscd.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "gscd.selector" -}}
app.kubernetes.io/name: {{ include "gscd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gscd.labels" -}}
{{ include "gscd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "gscd.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "gscd.fullname" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "gscd.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{/* The name of a table, as the program makes it: its name, else the last part of its location. */}}
{{- define "gscd.tableName" -}}
{{- .name | default (base (trimSuffix "/" .location)) }}
{{- end }}

{{/* GOMEMLIMIT for a memory limit in Mi or Gi, in percent of it. */}}
{{- define "gscd.goMemLimit" -}}
{{- $number := regexFind "^[0-9]+" .limit | int }}
{{- if hasSuffix "Gi" .limit }}{{ $number = mul $number 1024 }}{{ end }}
{{- div (mul $number .percent) 100 }}MiB
{{- end }}

{{/* The arguments of a pod that is one of several. */}}
{{- define "gscd.scaleOut" -}}
{{- $args := list }}
{{- if .Values.scaleOut.enabled }}
{{- $args = list "--scale-out-group" (default (include "gscd.fullname" .) .Values.scaleOut.group) "--scale-out-session-timeout" .Values.scaleOut.sessionTimeout
  "--scale-out-advertise" (printf "%s://$(POD_NAME).%s.%s.svc:%d" (ternary "https" "http" (ne .Values.http.tls.secret "")) (include "gscd.fullname" .) .Release.Namespace (int .Values.http.port)) }}
{{- end }}
{{- $args | toJson }}
{{- end }}

{{/* What kubectl calls the ingester. */}}
{{- define "gscd.workload" -}}
{{ if .Values.scaleOut.enabled }}statefulset{{ else }}deploy{{ end }}/{{ include "gscd.fullname" . }}
{{- end }}

{{/*
A pod of gscd. root: the chart's context; command: its name; args; resources; restart: the policy; grace: seconds, probes: the
ingester's; config: the name of the ConfigMap; account: of the service account.
*/}}
{{- define "gscd.pod" -}}
{{- $v := .root.Values }}
serviceAccountName: {{ .account }}
automountServiceAccountToken: {{ $v.serviceAccount.automountToken }}
enableServiceLinks: false
restartPolicy: {{ .restart }}
{{- with .grace }}
terminationGracePeriodSeconds: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ $v.runAsUser }}
  runAsGroup: {{ $v.runAsUser }}
  fsGroup: {{ $v.runAsUser }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $v.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $v.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $v.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: {{ .command }}
    image: {{ include "gscd.image" .root | quote }}
    imagePullPolicy: {{ $v.image.pullPolicy }}
    args: {{- toYaml .args | nindent 6 }}
    env:
      - {name: GSCD_CONFIG, value: /etc/gscd/gscd.yaml}
      - {name: TMPDIR, value: /scratch}
      - {name: HOME, value: /scratch}
      {{- if and .probes $v.scaleOut.enabled }}
      - name: POD_NAME
        valueFrom: {fieldRef: {fieldPath: metadata.name}}
      {{- end }}
      {{- with dig "limits" "memory" "" .resources }}
      - {name: GOMEMLIMIT, value: {{ include "gscd.goMemLimit" (dict "limit" . "percent" $v.goMemoryPercent) | quote }}}
      {{- end }}
      {{- range $v.secrets.settings }}
      - {name: {{ printf "GSCD_%s_FILE" (.setting | replace "." "_" | upper) }}, value: {{ printf "/etc/gscd-secrets/%s/%s" .secret .key | quote }}}
      {{- end }}
      {{- with $v.http.tls.secret }}
      - {name: GSCD_HTTP_TLS_CERT_FILE, value: {{ printf "/etc/gscd-secrets/%s/tls.crt" . | quote }}}
      - {name: GSCD_HTTP_TLS_KEY_FILE, value: {{ printf "/etc/gscd-secrets/%s/tls.key" . | quote }}}
      {{- end }}
      {{- with $v.http.token }}{{ if .secret }}
      - {name: GSCD_HTTP_TOKEN_FILE, value: {{ printf "/etc/gscd-secrets/%s/%s" .secret .key | quote }}}
      {{- end }}{{ end }}
      {{- range $v.secrets.env }}
      - name: {{ .name }}
        valueFrom: {secretKeyRef: {name: {{ .secret }}, key: {{ .key }}}}
      {{- end }}
      {{- with $v.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- if .probes }}
    ports:
      - {name: http, containerPort: {{ $v.http.port }}, protocol: TCP}
    startupProbe:
      httpGet: {path: /healthz, port: http{{ if $v.http.tls.secret }}, scheme: HTTPS{{ end }}}
      {{- toYaml $v.probes.startup | nindent 6 }}
    livenessProbe:
      httpGet: {path: /healthz, port: http{{ if $v.http.tls.secret }}, scheme: HTTPS{{ end }}}
      {{- toYaml $v.probes.liveness | nindent 6 }}
    readinessProbe:
      httpGet: {path: /readyz, port: http{{ if $v.http.tls.secret }}, scheme: HTTPS{{ end }}}
      {{- toYaml $v.probes.readiness | nindent 6 }}
    {{- end }}
    {{- with .resources }}
    resources: {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: config, mountPath: /etc/gscd, readOnly: true}
      - {name: scratch, mountPath: /scratch}
      {{- range include "gscd.secretNames" .root | fromJsonArray }}
      - {name: {{ printf "secret-%s" . | quote }}, mountPath: {{ printf "/etc/gscd-secrets/%s" . | quote }}, readOnly: true}
      {{- end }}
      {{- with $v.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
volumes:
  - name: config
    configMap: {name: {{ .config }}}
  - name: scratch
    {{- if $v.scratch.storageClassName }}
    ephemeral:
      volumeClaimTemplate:
        spec:
          accessModes: [ReadWriteOnce]
          storageClassName: {{ $v.scratch.storageClassName }}
          resources: {requests: {storage: {{ $v.scratch.size }}}}
    {{- else }}
    emptyDir: {sizeLimit: {{ $v.scratch.size }}}
    {{- end }}
  {{- range include "gscd.secretNames" .root | fromJsonArray }}
  - name: {{ printf "secret-%s" . | quote }}
    secret: {secretName: {{ . }}, defaultMode: 0440}
  {{- end }}
  {{- with $v.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The secrets that are mounted, each once. */}}
{{- define "gscd.secretNames" -}}
{{- $names := list }}
{{- range .Values.secrets.settings }}{{ $names = append $names .secret }}{{ end }}
{{- range .Values.secrets.mount }}{{ $names = append $names . }}{{ end }}
{{- range list .Values.http.tls.secret .Values.http.token.secret }}{{ if . }}{{ $names = append $names . }}{{ end }}{{ end }}
{{- $names | uniq | toJson }}
{{- end }}

{{- define "gscd.configFile" -}}
{{- .Values.config | toYaml }}
{{- end }}
