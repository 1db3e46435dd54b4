// Package recording reads and writes recorded topics: JSON lines, one Kafka
// record a line, that stand for the broker at one moment. It is what replays,
// tests and `gscd ingest --input` read in place of a broker.
//
// Nouns: Recording (the files of one recording, indexed), Writer (makes one),
// Form (the two ways a line is written), line (one parsed line).
//
// Two forms are read, plain, gzip or zstd, told apart line by line:
//
//	{"topic":"t","partition":0,"offset":7,"tstype":"create","ts":1657936800400,
//	 "headers":["k","v"],"key":"{\"id\":1}","payload":"{\"op\":\"c\"}"}
//	{"topic":"t","partition":0,"offset":7,"ts":1657936800400,
//	 "headers":{"k":"v"},"key":{"id":1},"value":{"op":"c"}}
//
// In the first (kcat -J) key and payload are strings that hold the bytes; in
// the second (readable) they are JSON and the bytes are its text as it stands.
// Bytes that are no JSON stand as text in raw_key and raw_value, bytes that
// are no UTF-8 as base64 in key_b64, value_b64 or payload_b64 and headers_b64.
// A payload or value of null is a tombstone, a key of null or none is no key.
//
// Invariants:
//
//  1. Open reads every line: what it returns has no line that can't be parsed
//     and offsets that rise in each partition. Errors name file and line.
//  2. Memory is the index (4 to 6 bytes a line) and a few MiB of pages, never
//     the recording. Compressed files and pipes are unpacked into a temporary
//     file that is gone after Close.
//  3. A partition's records come in offset order; partitions advance together
//     in the order of the files, unless they are paused.
//  4. The bytes of a Block's records live in one buffer of that Block, which
//     nobody writes to after Poll has returned it.
package recording
