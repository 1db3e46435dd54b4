// Package kafka reads topics from exact offsets and tells what their brokers
// know, with franz-go. It is the only package that imports a Kafka client for
// reading.
//
// Nouns: Options (how to reach the brokers), Cluster (what the tables of a
// process share of one Kafka cluster), Consumer (one table's reader), reading
// (one partition of one Consumer's assignment), change.Block (a stretch of one
// partition), position (the offset behind everything that was read of a
// partition: Block.Next).
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
//     metadata each time. Only NewPartitions answers from memory.
//  5. Group offsets are written for lag tools, never read.
//  6. Retrying is decided in Classify; the client library repeats single
//     requests within Options.RequestTimeout, and fetches are repeated here.
//  7. What all tables have fetched and not taken stays within
//     Options.FetchBytes, and no table can keep another from reading: each may
//     hold as much as is left, and one that has nothing to take may always
//     fetch a little. Paused partitions give up what they keep when it is short.
//
// # Non-obvious
//
// Fetches are requests of our own, not the library's consumer. That one holds a
// partition once per client, moves an exact start offset that it had not heard
// of to the nearest one in the log, throws away what it has buffered for all
// partitions when one is unassigned, tells a position only through records, and
// answers for a partition that was resumed only after its request under way has
// ended. Here an answer is taken only by readings that still stand where the
// fetch asked (see reading.gone and ahead), a topic is asked for by the ID that
// was known at Assign, and the position is what the unpacked answer says.
//
// A broker answers the requests of one connection one after another, so while a
// fetch waits there for records, a partition that is assigned or resumed would
// wait too. It is fetched over a second connection, by a second client; that
// one's fetches end just before the first one's, so all come together again.
//
// Two tables that read one partition at the same offset share the fetch; at
// different offsets they take turns.
//
// The leader epoch of the last record is checked against each new leader: one
// that was elected without records that were read is a LostOffsetsError.
package kafka
