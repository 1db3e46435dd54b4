package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/server/group"
	"github.com/gscd-io/gscd/snapshotter"
)

// registry gathers the metrics of the process. Values are read when they are
// asked for: a lane pays nothing for them.
func (s *Server) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// metric is one metric by its name, with the names of its labels.
type metric struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

// What is told of the process.
var (
	buildInfo     = gauge("gscd_build_info", "1, with what the program was built from.", "version", "commit", "go")
	tablesIn      = gauge("gscd_tables", "Tables in a state: waiting, running, failed, ended.", "state")
	reloads       = counter("gscd_config_reloads_total", "Configurations that SIGHUP has brought: taken, or refused for their faults.", "result")
	batchMemory   = gauge("gscd_batch_memory_bytes", "Bytes of records in uncommitted batches of all tables.")
	batchLimit    = gauge("gscd_batch_memory_limit_bytes", "Bound of gscd_batch_memory_bytes: process.batch_memory.")
	earlyCommits  = counter("gscd_batch_memory_commits_total", "Commits that were made early for the bound.")
	tasksRunning  = gauge("gscd_heavy_tasks_running", "Tables that seal, write a checkpoint or build an index.", "work")
	tasksWaiting  = gauge("gscd_heavy_tasks_waiting", "Tables that wait for their turn to seal, write a checkpoint or build an index.")
	tasksLimit    = gauge("gscd_heavy_tasks_limit", "How many tables may seal, write a checkpoint or build an index at once: process.heavy_tasks.")
	kafkaRequests = counter("gscd_kafka_requests_total", "Requests to the brokers, by name.", "request")
	kafkaFetched  = counter("gscd_kafka_fetched_bytes_total", "Bytes that the brokers have sent, as they came over the wire.")
)

// storeRetries is of the process: one S3 client serves all tables.
var storeRetries = counter("gscd_s3_retries_total", "Requests that the S3 client has repeated by itself, by operation.", "op")

// What is told of each sink of notifications.
var (
	notifications     = counter("gscd_notifications_total", "Attempts to tell a sink of an event, by result: delivered, failed.", "sink", "result")
	notifyUndelivered = gauge("gscd_notifications_undelivered", "Events that a sink was not told yet.", "sink")
	notifyOldest      = gauge("gscd_notifications_oldest_seconds", "For how long the first event that a sink was not told has waited, 0 where none does.", "sink")
)

// What is told of the group that shares the tables out, where there is one.
var (
	groupMembers    = gauge("gscd_group_members", "Processes in the group of scale_out, as it was shared out last.")
	groupTables     = gauge("gscd_group_tables", "Tables that the group has given to this process (mine), to any (all), and that wait for their process to stop them first (moving).", "which")
	groupGeneration = gauge("gscd_group_generation", "Generation of the group: it rises with each sharing out.")
	groupAway       = gauge("gscd_group_coordinator_silent_seconds", "For how long the coordinator of the group has not answered this process, 0 where it does.")
	groupRebalances = counter("gscd_group_rebalances_total", "Sharings out of the group that this process has taken part in.")
)

// What is told of each table.
var (
	tableRunning = gauge("gscd_table_running", "1 where the table has loaded its state and runs.", "table")
	tableFailed  = gauge("gscd_table_failed", "1 where the table has failed and is not started again.", "table")
	lastError    = gauge("gscd_table_error", "1 where an error has stopped the table, for now or for good.", "table")
	waiting      = gauge("gscd_table_waiting_seconds", "For how long the table has waited for what does not answer, 0 where it does not: source, schema_registry, storage (a call of more than 10 s), turn (others take the table).", "table", "for")
	restarts     = counter("gscd_table_restarts_total", "Errors after which the table was started again.", "table")

	recordsTaken = counter("gscd_records_taken_total", "Records that commits have brought.", "table")
	records      = counter("gscd_records_total", "Records by what became of them: applied, superseded, duplicate, tombstone, filtered, dead_letter. A held record gets its fate when its label opens: taken = the fates + the growth of gscd_held_records.", "table", "fate")
	lateRecords  = counter("gscd_late_records_total", "Changes that came after their label was sealed.", "table")
	driftRecords = counter("gscd_drift_records_total", "Changes that came after changes of a later label.", "table")
	commits      = counter("gscd_commits_total", "Commits, by kind: batch, seal, maintenance.", "table", "kind")
	seals        = counter("gscd_seals_total", "Sealed labels, by rule: proof, clock. By the clock no partition proved that the source lived past the label.", "table", "rule")

	conflicts      = counter("gscd_commit_conflicts_total", "Commits that met one of another writer, and were made anew.", "table")
	files          = gauge("gscd_files", "Live data files.", "table")
	liveBytes      = gauge("gscd_bytes", "Bytes of the live data files, at the start or the last seal.", "table")
	savepoints     = gauge("gscd_savepoints", "Versions that are pinned: sealed labels, named savepoints, rolled-back ones that are kept. Labels that were sealed by one commit share one.", "table")
	rows           = gauge("gscd_rows", "Live rows.", "table")
	indexKeys      = gauge("gscd_index_keys", "Keys in the key index: those of live rows.", "table")
	indexBytes     = gauge("gscd_index_bytes", "Memory of the key index, outside of Go's heap but for small ones.", "table")
	heldRecords    = gauge("gscd_held_records", "Changes that wait for a later label.", "table")
	heldBytes      = gauge("gscd_held_bytes", "Bytes of the files that hold changes of later labels.", "table")
	deadLetterRows = gauge("gscd_dead_letters", "Dead letters that labels lack.", "table")
	incomplete     = gauge("gscd_incomplete", "1 where the open label will be marked incomplete.", "table")
	ownerEpoch     = gauge("gscd_owner_epoch", "Owner epoch of the table; it rises with each process that takes the table.", "table")
	lastCommit     = gauge("gscd_last_commit_timestamp_seconds", "When the last commit was made, Unix time.", "table")
	openStart      = gauge("gscd_open_label_start_timestamp_seconds", "Start of the open label, Unix time.", "table")
	openEnd        = gauge("gscd_open_label_end_timestamp_seconds", "End of the open label, Unix time.", "table")
	sealOverdue    = gauge("gscd_seal_overdue_seconds", "How long ago the open label would have been sealed by the clock, were every partition read to its end; 0 before.", "table")
	tableBatch     = gauge("gscd_table_batch_bytes", "Bytes of records in the uncommitted batch.", "table")

	partitionNext   = gauge("gscd_partition_next_offset", "Next offset to take.", "table", "topic", "partition")
	partitionLag    = gauge("gscd_partition_lag", "Records up to the end of the partition that were not taken yet; a paused partition has some.", "table", "topic", "partition")
	partitionTime   = gauge("gscd_partition_watermark_timestamp_seconds", "Highest event time taken, Unix time.", "table", "topic", "partition")
	partitionPaused = gauge("gscd_partition_paused", "1 where the partition waits for the others to end the label.", "table", "topic", "partition")

	storeRequests = counter("gscd_store_requests_total", "Calls of the storage of the table and of its dead letters, by outcome: ok, not_found, exists, temporary, unknown, canceled, error. Those that the S3 client repeats by itself count once.", "table", "op", "code")
	storeRead     = counter("gscd_store_read_bytes_total", "Bytes read from the storage of the table and of its dead letters.", "table")
	storeWritten  = counter("gscd_store_written_bytes_total", "Bytes written to the storage of the table and of its dead letters.", "table")
)

// waitedFor are the things that a table waits for, as metrics name them.
var waitedFor = map[string]string{ingest.ForSource: "source", ingest.ForSchemas: "schema_registry", ingest.ForTurn: "turn", forStorage: "storage"}

// collector reads the server when metrics are asked for.
type collector struct{ s *Server }

// Describe describes nothing: the tables come and go.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// sink is where metrics go.
type sink chan<- prometheus.Metric

func (out sink) put(m metric, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(m.Desc, m.kind, value, labels...)
}

func (out sink) flag(m metric, set bool, labels ...string) {
	value := 0.
	if set {
		value = 1
	}
	out.put(m, value, labels...)
}

func (out sink) time(m metric, t time.Time, labels ...string) {
	if !t.IsZero() {
		out.put(m, float64(t.UnixMilli())/1000, labels...)
	}
}

// Collect is prometheus.Collector's.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	out, s := sink(ch), c.s
	tables := s.all()
	out.put(buildInfo, 1, s.o.Build["version"], s.o.Build["commit"], s.o.Build["go"])
	states := map[State]int{Waiting: 0, Running: 0, Failed: 0, Ended: 0}
	for _, t := range tables {
		state, _, _ := t.now()
		states[state]++
		c.table(out, t)
	}
	for state, n := range states {
		out.put(tablesIn, float64(n), string(state))
	}
	s.mu.Lock()
	changes, refused := s.changes, s.refused
	s.mu.Unlock()
	out.put(reloads, float64(changes), "taken")
	out.put(reloads, float64(refused), "refused")
	used, limit, early := s.memory.use()
	out.put(batchMemory, float64(used))
	out.put(batchLimit, float64(limit))
	out.put(earlyCommits, float64(early))
	gate := s.gate.use()
	for work, n := range gate.inside {
		out.put(tasksRunning, float64(n), string(work))
	}
	out.put(tasksWaiting, float64(gate.waiting))
	out.put(tasksLimit, float64(gate.limit))
	if s.o.Group != nil {
		c.group(out, s.o.Group.View())
	}
	if s.o.Traffic != nil {
		traffic := s.o.Traffic()
		for request, n := range traffic.Requests {
			out.put(kafkaRequests, float64(n), request)
		}
		out.put(kafkaFetched, float64(traffic.Fetched))
	}
	if s.o.Retries != nil {
		for op, n := range s.o.Retries() {
			out.put(storeRetries, float64(n), op)
		}
	}
	if s.o.Notifications != nil {
		out.notified(s.o.Notifications())
	}
}

// notified tells of the sinks of notifications.
func (out sink) notified(list []Notified) {
	for _, n := range list {
		age := 0.
		if !n.Oldest.IsZero() {
			age = time.Since(n.Oldest).Seconds()
		}
		out.put(notifications, float64(n.Delivered), n.Sink, "delivered")
		out.put(notifications, float64(n.Failed), n.Sink, "failed")
		out.put(notifyUndelivered, float64(n.Undelivered), n.Sink)
		out.put(notifyOldest, age, n.Sink)
	}
}

// group tells of the group.
func (c collector) group(out sink, v group.View) {
	var mine, all, moving int
	for _, m := range v.Members {
		for _, t := range m.Tables {
			switch {
			case t.From != "":
				moving++
			case m.Name == v.Member:
				mine++
			}
		}
		all += len(m.Tables)
	}
	silent := 0.
	if v.Away != nil {
		silent = time.Since(v.AwaySince).Seconds()
	}
	out.put(groupMembers, float64(len(v.Members)))
	out.put(groupTables, float64(mine), "mine")
	out.put(groupTables, float64(all), "all")
	out.put(groupTables, float64(moving), "moving")
	out.put(groupGeneration, float64(v.Generation))
	out.put(groupAway, silent)
	out.put(groupRebalances, float64(v.Rebalances))
}

// table tells of one table: counters of the process always, the state while a
// runner has it loaded. A lag that stands still would be a lie.
func (c collector) table(out sink, t *table) {
	name, w := t.Name, t.watch
	state, err, _ := t.now()
	out.flag(tableRunning, state == Running, name)
	out.flag(tableFailed, state == Failed, name)
	out.flag(lastError, err != nil, name)
	now := time.Now()
	longest := map[string]float64{}
	for _, w := range t.waits(now) {
		longest[w.For] = now.Sub(w.Since).Seconds()
	}
	for what, label := range waitedFor {
		out.put(waiting, longest[what], name, label)
	}
	out.put(tableBatch, float64(t.share.bytes()), name)
	w.counters(out, name)
	view, loaded := w.state()
	if !loaded {
		return
	}
	out.put(indexKeys, float64(view.IndexKeys), name)
	out.put(indexBytes, float64(view.IndexBytes), name)
	if standing := t.standing(); standing != nil {
		standing.gauges(out)
	}
	if v, _ := w.state(); v.Files >= 0 && v.Progress != nil {
		out.put(files, float64(v.Files), name)
		out.put(liveBytes, float64(v.Bytes), name)
		out.put(savepoints, float64(v.Savepoints), name)
	}
}

// counters tells what was counted.
func (w *watch) counters(out sink, name string) {
	out <- w.batch
	out <- w.commit
	w.mu.Lock()
	defer w.mu.Unlock()
	out.put(restarts, float64(w.restarts), name)
	out.put(recordsTaken, float64(w.taken), name)
	for _, f := range []struct {
		fate string
		n    int64
	}{
		{"applied", w.fates.applied}, {"superseded", w.fates.superseded}, {"duplicate", w.fates.duplicates},
		{"tombstone", w.fates.tombstones}, {"filtered", w.fates.filtered}, {"dead_letter", w.fates.deadLetters},
	} {
		out.put(records, float64(f.n), name, f.fate)
	}
	out.put(lateRecords, float64(w.late), name)
	out.put(conflicts, float64(w.conflicts), name)
	out.put(driftRecords, float64(w.drift), name)
	for _, kind := range []progress.Kind{progress.Batch, progress.SealKind, progress.Maintenance} {
		out.put(commits, float64(w.commits[kind]), name, string(kind))
	}
	for _, rule := range []string{byProof, byClock} {
		out.put(seals, float64(w.seals[rule]), name, rule)
	}
	u := &w.store
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, op := range storeOps {
		for _, code := range storeCodes {
			if n, ok := u.calls[storeCall{op, code}]; ok {
				out.put(storeRequests, float64(n), name, op, code)
			}
		}
	}
	out.put(storeRead, float64(u.read), name)
	out.put(storeWritten, float64(u.written), name)
}

// gauges tells the state.
func (s *Standing) gauges(out sink) {
	p, name := s.Progress, s.Name
	held := heldOf(p)
	open := p.State.Open
	out.put(rows, float64(p.Rows), name)
	out.put(heldRecords, float64(held.records), name)
	out.put(heldBytes, float64(held.bytes), name)
	out.put(deadLetterRows, float64(deadLetters(p)), name)
	out.flag(incomplete, p.Incomplete != nil && p.Incomplete.Since <= open, name)
	out.put(ownerEpoch, float64(p.OwnerEpoch), name)
	out.time(lastCommit, s.Committed, name)
	out.time(openStart, time.UnixMicro(s.Calendar.Start(open)), name)
	out.time(openEnd, time.UnixMicro(s.Calendar.End(open)), name)
	out.put(sealOverdue, s.Overdue().Seconds(), name)
	for _, part := range s.Partitions {
		labels := []string{name, part.Topic, strconv.Itoa(int(part.Kafka))}
		out.put(partitionNext, float64(part.Next), labels...)
		if part.Lag >= 0 {
			out.put(partitionLag, float64(part.Lag), labels...)
		}
		if part.Watermark != snapshotter.NoTime {
			out.time(partitionTime, time.UnixMicro(part.Watermark), labels...)
		}
		out.flag(partitionPaused, part.Paused, labels...)
	}
}
