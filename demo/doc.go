// Package demo tells the story of one table: five days of a MySQL table of
// users, played back in some seconds. A shop makes the binlog, a connector puts
// it into a topic of an embedded broker, an ingester keeps a Delta table in
// step, and the page says what happened and why it matters.
//
// Nouns: shop (the source: rows and a binlog), connector (binlog events to
// records), stage (broker, clock and ingester), view (the table as any reader
// finds it), story (the days, in order), page (what is printed).
//
// Invariants:
//
//  1. Nothing between the broker's port and the table is made for the demo: the
//     consumer, the lane, the savepoints and the scans are those of the program.
//  2. Every number and every row on the page was read from the table, the
//     dead-letter table or the broker, after the fact.
//  3. The story waits for what it tells; it never sleeps for effect.
//  4. A demo that did not come to its end leaves nothing behind.
package demo
