// Package report draws one table as a page: its days, what happened in each, what they
// cost, what is wrong, and what the columns hold. The page is one HTML file that needs no
// server, no script and nothing from a network.
//
// Nouns: Source (an open table), Report (all that the page says, as values), Day (a label
// of the map, or a rolled-back savepoint that is kept), Problem (something to look at),
// Profile (what columns hold in the last labels), grid (the days as a calendar), chart
// (bars or a line over the labels).
//
// Invariants:
//
//  1. Figures of days are those of savepoint.Summaries, and the table of days holds each
//     of them; pictures are drawn from the same values.
//  2. What a table holds is hostile: names and values reach the page only through
//     html/template, cut to MaxText characters, and the page forbids scripts and addresses.
//  3. The cost is bounded: values are read of the last labels alone, and of no more rows
//     than Options.MaxRows; of labels beyond it the page says what the log's statistics
//     say, and marks it so. A page shows MaxDays labels at most.
//  4. Nothing is told by colour alone; every picture has its values as text.
package report
