//go:build tools

// Package tools names the programs whose versions go.mod pins.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
)
