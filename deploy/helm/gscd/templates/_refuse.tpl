{{/* What a schema can't say, or says in words that help nobody. Every fault is named at once. */}}
{{- define "gscd.refuse" -}}
{{- $v := .Values }}
{{- $faults := list }}
{{- if not $v.config }}
{{- $faults = append $faults "config is empty: it is the configuration of gscd, with at least kafka.brokers, calendar.timezone and tables (docs/configuration.md)" }}
{{- else }}
{{- range list "kafka.sasl.password" "schema_registry.password" "schema_registry.token" "s3.secret_access_key" "s3.session_token" "azure.account_key" "azure.sas_token" "mysql.password" "transform.hash_secret" }}
{{- $at := $v.config }}
{{- range splitList "." . }}
{{- if kindIs "map" $at }}{{ $at = get $at . }}{{ else }}{{ $at = "" }}{{ end }}
{{- end }}
{{- if $at }}
{{- $faults = append $faults (printf "config.%s is a secret, and would be readable in a ConfigMap: put it into a Secret and name that: secrets.settings: [{setting: %s, secret: NAME, key: KEY}]" . .) }}
{{- end }}
{{- end }}
{{- if hasKey $v.config "http" }}
{{- $faults = append $faults "config.http is set by the chart: use http.port, http.tls and http.token" }}
{{- end }}
{{- if not (dig "calendar" "timezone" "" $v.config) }}
{{- $faults = append $faults "config.calendar.timezone is missing: the IANA zone whose clock ends the day, such as Asia/Shanghai; it can't be changed later" }}
{{- end }}
{{- if not $v.config.tables }}
{{- $faults = append $faults "config.tables is empty: a table has a location and topics" }}
{{- end }}
{{- $seen := dict }}
{{- range $i, $t := $v.config.tables }}
{{- if not (kindIs "map" $t) }}
{{- $faults = append $faults (printf "config.tables[%d] is no map: write {location: s3://BUCKET/PATH, topics: [TOPIC]}" $i) }}
{{- else if not $t.location }}
{{- $faults = append $faults (printf "config.tables[%d].location is missing: where the table lies, such as s3://BUCKET/PATH" $i) }}
{{- else }}
{{- $name := include "gscd.tableName" $t }}
{{- if hasKey $seen $name }}
{{- $faults = append $faults (printf "config.tables[%d]: a table is called %s already: give one of them another name" $i $name) }}
{{- end }}
{{- $_ := set $seen $name true }}
{{- if and (not (contains "://" $t.location)) (not $v.extraVolumes) }}
{{- $faults = append $faults (printf "config.tables[%d].location %s is a path in the pod, which no volume holds: use s3://, gs:// or az://, or add extraVolumes and extraVolumeMounts" $i $t.location) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (gt (int $v.replicas) 1) (not $v.scaleOut.enabled) }}
{{- $faults = append $faults (printf "replicas is %d: one process ingests a table, more would take it from each other: set scaleOut.enabled, by which they share the tables out, or use 1" (int $v.replicas)) }}
{{- end }}
{{- if hasKey $v.config "scale_out" }}
{{- $faults = append $faults "config.scale_out is set by the chart: use scaleOut" }}
{{- end }}
{{- if $v.scaleOut.enabled }}
{{- $group := default (include "gscd.fullname" .) $v.scaleOut.group }}
{{- if eq $group (dig "kafka" "group" "" $v.config) }}
{{- $faults = append $faults (printf "scaleOut.group %s is config.kafka.group too, whose offsets are for lag tools: a group has one use, name another" $group) }}
{{- end }}
{{- end }}
{{- if lt (int $v.terminationGracePeriodSeconds) 40 }}
{{- $faults = append $faults (printf "terminationGracePeriodSeconds is %d: a stop may commit for 30 s and ends HTTP in 3: use 40 or more" (int $v.terminationGracePeriodSeconds)) }}
{{- end }}
{{- range $v.extraEnv }}
{{- if and .value (regexMatch "PASSWORD|SECRET|TOKEN|ACCOUNT_KEY" .name) (not (hasSuffix "_FILE" .name)) }}
{{- $faults = append $faults (printf "extraEnv %s looks like a secret, and would be readable in the pod: name a Secret in secrets.env, or use valueFrom" .name) }}
{{- end }}
{{- end }}
{{- if and $v.image.digest $v.image.tag }}
{{- $faults = append $faults "image.digest and image.tag: give one of them, the digest decides" }}
{{- end }}
{{- with $faults }}
{{- fail (printf "\n\ngscd: the values have %d fault(s):\n  %s\n" (len .) (join "\n  " .)) }}
{{- end }}
{{- end }}
