// Package dynamodb lets a table in S3 be written together with Spark's
// S3DynamoDBLogStore and delta-rs's DynamoDB lock: a Store around the bucket's
// that puts commits of the Delta log through a DynamoDB table, in the layout and
// by the protocol that those have.
//
// Nouns: Client (the DynamoDB table), Store (a bucket's store, and the URI by
// which all writers name the table in it), entry (an item: which temporary file
// is version N), recovery (finishing what another writer left).
//
// A DynamoDB table has the keys tablePath (hash) and fileName (range,
// "%020d.json"), and the attributes tempPath (relative to _delta_log), complete
// ("true", "false") and expireTime (seconds since 1970, once complete). A commit:
//
//  1. N.json is not there, and N-1.json is; where the entry of N-1 is incomplete,
//     it is recovered first.
//  2. The commit is written to _delta_log/.tmp/N.json.UUID.
//  3. An entry for N is put if there is none. From here on the commit has
//     happened: whoever finds the entry can finish it.
//  4. The temporary file is copied to N.json.
//  5. The entry is made complete, with a time in a day at which DynamoDB may
//     forget it, and the temporary file is removed.
//
// Invariants:
//
//  1. A commit has the bytes of the first entry of its version; two writers that
//     name the table alike never both succeed.
//  2. A listing of the log, and a read of a commit that is not there, look for an
//     incomplete entry and recover it first.
//  3. A commit that somebody wrote past DynamoDB is never replaced: the copy is a
//     PutIfAbsent, and what was put meanwhile is told as ErrExist.
//  4. Everything but commits goes to the bucket's store unchanged.
//  5. The temporary files are not listed.
package dynamodb
