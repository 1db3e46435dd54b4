// Package apiserver lets a real kube-apiserver say what it thinks of the chart and of
// the manifests: every object by a strict dry run of server-side apply, the pods under
// the restricted profile, a release installed, upgraded and uninstalled by Helm with the
// rights of a role that docs/kubernetes.md shows. There are no controllers: nothing runs.
//
// Its tests have the build tag kube, and need what ../../kube/build.sh builds: "make kube".
package apiserver
