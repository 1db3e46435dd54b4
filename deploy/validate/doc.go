// Package validate checks what lies in deploy/ as its readers would read it: the
// chart with Helm's engine and schema, what it and kustomize make with the types
// of Kubernetes and of the Prometheus operator, the compose file with compose's
// own loader. It is a module of its own, so that none of this is a dependency of
// the program. Run it with "go test ./..." in this folder.
package validate
