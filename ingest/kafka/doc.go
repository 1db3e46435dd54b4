// Package kafka reads topics from exact offsets and tells what their brokers
// know, with franz-go. It is the only package that imports a Kafka client for
// reading.
//
// Nouns: Options (how to reach the brokers), Consumer (one table's reader),
// change.Block (a stretch of one partition), position (the offset behind
// everything that was read of a partition: Block.Next).
//
// Invariants:
//
//  1. Offsets come from the caller and are never reset. An offset that the log
//     does not have is a change.LostOffsetsError, a topic that was made anew a
//     TopicRecreatedError; after either nothing is delivered until Assign.
//  2. Only committed records are delivered. Transaction markers, aborted and
//     compacted records move the position without a record, so a position can
//     reach the high watermark whatever stands before it.
//  3. Positions of a partition never go down between two Assigns, and no
//     record is delivered twice or left out.
//  4. Partitions reads the clock before it asks the brokers, and asks them for
//     metadata each time.
//  5. Group offsets are written for lag tools, never read.
//  6. Retrying is decided in Classify; only the client library below repeats
//     single requests, within Options.RequestTimeout.
//
// # Non-obvious
//
// The library tells a position only through records, so control records are
// asked for, although they are thrown away: a stretch of aborted records ends
// in a marker, which moves the position. What ends in neither (the tail of a
// compacted log) is looked at with a fetch of our own, see probe.
//
// Each Assign makes a new fetching client. A client keeps what it learned of a
// topic (its ID, leader epochs, fetches under way); a new one can't mix that
// with a new assignment.
//
// The library moves an exact start offset to the nearest one in the log where
// it had not heard of the partition before. Assign checks the offsets against
// the brokers first, and each block is checked against the log start.
package kafka
