// Package group shares tables out among the processes of a group: each table to
// one process, as many to each as to the others, and with as few moves as can be.
// Kafka's own group protocol says who is there (ingest/kafka.Membership); what is
// shared out, and how, is decided here.
//
// Nouns: Candidate (a process that may run tables), claim (a table that a process
// runs, or has not stopped yet), Plan (who runs what, made by the group's leader
// for one generation), Member (this process in its group).
//
// Invariants:
//
//  1. A plan is made of the candidates and the plan before alone: the same ones
//     give the same plan, in whatever order they come.
//  2. A table is only given to a process that has it in its configuration.
//  3. A table is given to nobody while another process claims it: who is to give
//     it up hears so by the plan, stops it at a commit boundary, and asks for the
//     next sharing out.
//  4. What a plan gave to this process counts as claimed from that moment on, so
//     no table is started that another one could have been given.
//  5. The group only decides who tries. That one process writes a table is held by
//     the table itself: its owner epoch, and commits on the state they were built
//     from. So a process that hears nothing of its coordinator goes on.
package group
