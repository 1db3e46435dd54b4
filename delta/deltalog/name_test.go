package deltalog

import "testing"

func TestParseName(t *testing.T) {
	const v = "00000000000000000042"
	for name, want := range map[string]Name{
		v + ".json":               {Kind: CommitFile, Version: 42},
		v + ".checkpoint.parquet": {Kind: ClassicCheckpoint, Version: 42},
		v + ".checkpoint.0000000002.0000000003.parquet":                {Kind: CheckpointPart, Version: 42, Part: 2, Parts: 3},
		v + ".checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json":    {Kind: UUIDCheckpoint, Version: 42},
		v + ".checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet": {Kind: UUIDCheckpoint, Version: 42},
		v + ".crc":                      {Kind: Checksum, Version: 42},
		v + "." + v + ".compacted.json": {Kind: Compacted, Version: 42, To: 42},
		"42.json":                       {},
		"0" + v + ".json":               {},
		v + ".json.tmp":                 {},
		"." + v + ".json.crc":           {},
		v:                               {},
		v + ".json/x":                   {},
		"99999999999999999999.json":     {},
		v + ".checkpoint.0000000004.0000000003.parquet": {},
		v + ".checkpoint.0000000000.0000000003.parquet": {},
		v + ".checkpoint.2.3.parquet":                   {},
		v + ".checkpoint.80a083e8.json":                 {},
		v + ".00000000000000000041.compacted.json":      {},
		"_last_checkpoint":                              {},
		".tmp":                                          {},
		"":                                              {},
	} {
		if got := ParseName(name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if ParseName(CommitKey(7)[len(Dir):]) != (Name{Kind: CommitFile, Version: 7}) || ParseName(CheckpointKey(7)[len(Dir):]) != (Name{Kind: ClassicCheckpoint, Version: 7}) {
		t.Error("the keys made here are not read here")
	}
}

// FuzzParseName: no name panics, and what is recognised has sane numbers.
func FuzzParseName(f *testing.F) {
	f.Add("00000000000000000042.json")
	f.Add("00000000000000000042.checkpoint.0000000002.0000000003.parquet")
	f.Fuzz(func(t *testing.T, name string) {
		n := ParseName(name)
		if n.Version < 0 || n.Part > n.Parts || (n.Kind == Compacted && n.To < n.Version) {
			t.Errorf("%q: %+v", name, n)
		}
	})
}
