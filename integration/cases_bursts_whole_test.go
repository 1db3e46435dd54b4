//go:build integration

package integration

func init() { wholeBursts = true }
