package scenario

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
		Measures: "store files of the sizes that commits have, nothing else: the disk with fsync, or the storage of --table",
		run:      runWrite,
	},
	ingestOf("ingest", "ingest into a table of --rows rows", -1),
	ingestOf("ingest-empty", "ingest into a table that is not there yet", 0),
	ingestOf("ingest-1m", "ingest into a table of 1 M rows", 1_000_000),
	ingestOf("ingest-10m", "ingest into a table of 10 M rows", 10_000_000),
	ingestOf("ingest-50m", "ingest into a table of 50 M rows", 50_000_000),
}

func ingestOf(name, measures string, rows int64) Scenario {
	return Scenario{
		Name: name, Measures: measures, Unit: "events", Rows: rows, Ceiling: "decode", BrokerCeiling: "consume-decode",
		Needs:   Needs{Events: true, Table: true, Rows: true},
		prepare: makeTable, run: runIngest, verify: verifyIngest,
	}
}
