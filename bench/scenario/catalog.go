package scenario

import "context"

// all are the scenarios, ceilings first.
var all = []Scenario{
	{
		Name: "decode", Unit: "events", Rows: -1, Needs: Needs{Events: true},
		Measures: "read events and decode them, nothing else: the ceiling of what ingests without a broker",
		run:      runDecode,
	},
	{
		Name: "consume", Unit: "events", Rows: -1, Needs: Needs{Events: true, Broker: true},
		Measures: "read a topic to its end, nothing else",
		run:      runConsume,
	},
	{
		Name: "consume-decode", Unit: "events", Rows: -1, Needs: Needs{Events: true, Broker: true},
		Measures: "read a topic and decode its records, nothing else: the ceiling of what ingests through a broker",
		run:      runDecode,
	},
	{
		Name: "encode", Unit: "rows", Rows: -1,
		Measures: "encode rows as Parquet files, nothing else",
		run:      runEncode,
	},
	{
		Name: "write", Unit: "rows", Rows: -1, Needs: Needs{Table: true},
		Measures: "store files of the sizes that commits have, nothing else: the folder of the tables with fsync, or the storage of --table",
		run:      runWrite,
	},
	{
		Name: "disk", Unit: "rows", Rows: -1,
		Measures: "the same on the temporary folder, wherever tables are",
		run:      runDisk,
	},
	ingestOf("ingest", "ingest into a table of --rows rows", -1),
	ingestOf("ingest-empty", "ingest into a table that is not there yet", 0),
	ingestOf("ingest-1m", "ingest into a table of 1 M rows", 1_000_000),
	ingestOf("ingest-10m", "ingest into a table of 10 M rows", 10_000_000),
	ingestOf("ingest-50m", "ingest into a table of 50 M rows", 50_000_000),
	{
		Name: "catch-up", Unit: "events", Rows: -1, Ceiling: "decode", BrokerCeiling: "consume-decode", Needs: Needs{Events: true, Table: true, Rows: true, Days: 10},
		Measures: "ingest what has gathered over ten days or more at full speed: seals, and changes that are held for the next day",
		prepare:  makeTable, run: runIngest, verify: verifyIngest,
	},
	{
		Name: "steady", Unit: "events", Rows: -1, Needs: Needs{Events: true, Broker: true, Table: true, Rows: true, Paced: true},
		Measures: "ingest --rate events a second for --duration: the latency is from an event's time stamp to the end of its commit",
		prepare:  makeTable, run: runSteady, verify: verifyNewest,
	},
	readOf("open", "opens", "open the table and read its map of days, 20 times", "", runOpen, verifyNewest),
	readOf("query", "rows", "read all rows of a sealed day", "", runQuery, verifyQuery),
	readOf("point", "queries", "read the row of a key as of a sealed day, 200 times", "", runPoint, verifyPoint),
	readOf("diff", "changes", "compare the first and the last sealed day", "", runDiff, verifyDiff),
	readOf("read-keys", "keys", "read the key column of the table, nothing else: the ceiling of index", "", runReadKeys, verifyKeys),
	readOf("index", "keys", "build the key index, as each start of the ingester does", "read-keys", runIndex, verifyKeys),
	readOf("rollback", "rollbacks", "bring the table back to its first sealed day", "", runRollback, verifyRollback),
	readOf("maintain", "passes", "make a pass of maintenance that joins files and removes what no day needs", "", runMaintain, verifyNewest),
}

type phase = func(ctx context.Context, s *Spec, env Env, r *Result) error

// readOf is a scenario on a table with several sealed days.
func readOf(name, unit, measures, ceiling string, run, verify phase) Scenario {
	return Scenario{
		Name: name, Measures: measures, Unit: unit, Rows: -1, Ceiling: ceiling, BrokerCeiling: ceiling,
		Needs:   Needs{Table: true, Rows: true, Prepared: true, Days: 4},
		prepare: makeDays, run: run, verify: verify,
	}
}

func ingestOf(name, measures string, rows int64) Scenario {
	return Scenario{
		Name: name, Measures: measures, Unit: "events", Rows: rows, Ceiling: "decode", BrokerCeiling: "consume-decode",
		Needs:   Needs{Events: true, Table: true, Rows: true},
		prepare: makeTable, run: runIngest, verify: verifyIngest,
	}
}
