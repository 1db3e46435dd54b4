// Package azure is an object store in a container of Azure Blob Storage. It is
// the home of Azure's SDK.
//
// Nouns: Client (an account, credentials, connections), Store (a container and a
// prefix), token (metadata that tells whose write a blob is).
//
// Invariants:
//
//  1. PutIfAbsent is If-None-Match: * on the one request that makes the blob appear.
//  2. A write without a clear answer is looked up before anything is concluded:
//     each leaves a random token in its blob's metadata (gscdwrite). A blob
//     without one is this write's if its bytes are.
//  3. Every blob is sent with its MD5, and compared with it when it is read whole.
//  4. Requests are made again by package attempt only.
//  5. No error and no name has a secret in it: neither key nor signature.
//  6. A name that Azure would change (a backslash, a part that ends in a dot) is
//     no key: two keys would be one blob.
//
// Listing has no start that the oldest service versions know: what stands before
// startAfter is asked for too, and left out here. A page has 5000 names.
package azure
