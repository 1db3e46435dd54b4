package deltalog

import (
	"fmt"
	"strconv"
	"strings"
)

// Dir is the folder of the log, with its slash.
const Dir = "_delta_log/"

// Kind says what a file of the log is.
type Kind uint8

// The kinds. Other is anything else: temporary files, folders of other tools.
const (
	Other Kind = iota
	// CommitFile is %020d.json.
	CommitFile
	// ClassicCheckpoint is %020d.checkpoint.parquet.
	ClassicCheckpoint
	// CheckpointPart is %020d.checkpoint.%010d.%010d.parquet.
	CheckpointPart
	// UUIDCheckpoint is %020d.checkpoint.<uuid>.json or .parquet, of v2 checkpoints.
	UUIDCheckpoint
	// Checksum is %020d.crc.
	Checksum
	// Compacted is %020d.%020d.compacted.json.
	Compacted
)

// Name is what a file name of the log says.
type Name struct {
	Kind    Kind
	Version int64
	// Part and Parts are set for a CheckpointPart: 1 <= Part <= Parts.
	Part, Parts int64
	// To is the last version of a Compacted file.
	To int64
}

// ParseName reads a file name (without folder). A name of no known form is Other.
func ParseName(name string) Name {
	version, rest, ok := digits(name, 20)
	if !ok {
		return Name{}
	}
	switch rest {
	case ".json":
		return Name{Kind: CommitFile, Version: version}
	case ".checkpoint.parquet":
		return Name{Kind: ClassicCheckpoint, Version: version}
	case ".crc":
		return Name{Kind: Checksum, Version: version}
	}
	if rest, ok := strings.CutPrefix(rest, ".checkpoint."); ok {
		return checkpointName(version, rest)
	}
	if rest, ok := strings.CutPrefix(rest, "."); ok {
		if to, rest, ok := digits(rest, 20); ok && rest == ".compacted.json" && to >= version {
			return Name{Kind: Compacted, Version: version, To: to}
		}
	}
	return Name{}
}

func checkpointName(version int64, rest string) Name {
	if part, rest, ok := digits(rest, 10); ok {
		if rest, ok := strings.CutPrefix(rest, "."); ok {
			parts, rest, ok := digits(rest, 10)
			if ok && rest == ".parquet" && 1 <= part && part <= parts {
				return Name{Kind: CheckpointPart, Version: version, Part: part, Parts: parts}
			}
		}
	}
	id, extension, _ := strings.Cut(rest, ".")
	if len(id) == 36 && (extension == "json" || extension == "parquet") {
		return Name{Kind: UUIDCheckpoint, Version: version}
	}
	return Name{}
}

// digits cuts n decimal digits off s.
func digits(s string, n int) (value int64, rest string, ok bool) {
	if len(s) < n {
		return 0, s, false
	}
	for i := range n {
		if s[i] < '0' || s[i] > '9' {
			return 0, s, false
		}
	}
	value, err := strconv.ParseInt(s[:n], 10, 64)
	return value, s[n:], err == nil
}

// CommitKey gives the key of a version's commit file.
func CommitKey(version int64) string { return fmt.Sprintf("%s%020d.json", Dir, version) }

// CheckpointKey gives the key of a version's classic checkpoint in one file.
func CheckpointKey(version int64) string {
	return fmt.Sprintf("%s%020d.checkpoint.parquet", Dir, version)
}

// V2CheckpointKey gives the key of a v2 checkpoint's manifest in Parquet, by a UUID.
func V2CheckpointKey(version int64, id string) string {
	return fmt.Sprintf("%s%020d.checkpoint.%s.parquet", Dir, version, id)
}

// PartKeys gives the keys of a checkpoint in parts.
func PartKeys(version int64, parts int) []string {
	keys := make([]string, parts)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%020d.checkpoint.%010d.%010d.parquet", Dir, version, i+1, parts)
	}
	return keys
}

// CompactedKey gives the key of a log compaction file of the commits from..to.
func CompactedKey(from, to int64) string {
	return fmt.Sprintf("%s%020d.%020d.compacted.json", Dir, from, to)
}

// ChecksumKey gives the key of a version's checksum file.
func ChecksumKey(version int64) string { return fmt.Sprintf("%s%020d.crc", Dir, version) }

// HintKey is the key of the Hint.
const HintKey = Dir + "_last_checkpoint"
