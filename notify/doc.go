// Package notify tells other programs what happens to tables: a label was sealed,
// late changes came, a seal is overdue, a rollback was made, a table has failed.
//
// Nouns: Event (what happened, a CloudEvent), Sender (how it is told: Webhook,
// Topic, Exec), Sink (a Sender with what it wants to hear), Notifier (all sinks of a
// process), Table (a table that is watched: an ingest.Observer).
//
// Invariants:
//
//  1. A seal and a rollback are told at least once to each sink that covers the table
//     from its first start on, whatever crashes: what is to be told is derived from the
//     table's own map, and what was told is kept beside its log, one object a sink.
//     What comes twice has the same ID.
//  2. A sink hears the seals of a table in the order of their versions; one that does
//     not answer holds up its own events alone.
//  3. A commit never waits: what it brings is put into a queue of bounded length, and
//     what does not fit is read from the map later.
//  4. Late changes and overdue seals are told once a label. They and seals survive a
//     crash; that a table has failed does not.
//  5. No secret, and no more of a webhook's address than its host, is in an error or a log.
package notify
