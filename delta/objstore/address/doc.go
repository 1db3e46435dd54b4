// Package address opens an object store from the address of a table as a user
// writes it: a path, a file: URL, or the URL of an object storage.
//
// It stands apart from objstore because it imports the stores, and they import
// objstore.
package address
