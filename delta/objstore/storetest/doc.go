// Package storetest is the conformance suite of object stores: what every
// implementation of objstore.Store must do, whatever it is made of.
//
// A backend's own test calls Run with a function that makes an empty store:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) objstore.Store { return mem.New() })
//	}
//
// Service is the server of a fake storage, whose answers a test can lose or replace.
package storetest
