// Package sink writes the changes of a table to a Kafka topic, each exactly once.
//
// Nouns: Sink (the writing of one table to one topic), Shape (how a change is a record:
// Debezium's envelope, or a row of change data), position (the last version that is
// written), stage (the changes that go into the topic together: of a version, or of a seal).
//
// Invariants:
//
//  1. The records of a stage and the position behind it are one transaction: a reader of
//     committed records sees all of them or none, and a stage is in the topic once,
//     whatever crashes. The position is in Kafka alone.
//  2. One process writes: the transactional id is of table and topic, and one that starts
//     fences those before it. They end with kafka.ErrFenced.
//  3. Stages are in the order of versions, and go on where the position is: applied one
//     behind the other they lead to the table's rows, rollbacks included.
//  4. A key has one record a stage (two where Shape or tombstones say so), and the key of
//     the record is the table's, so that a key stays on its partition and in order.
//  5. Memory is bounded by changes.Options.Memory and the records under way to the
//     brokers (32 MiB), whatever a stage has.
package sink
