#!/usr/bin/env bash
# test.sh CLI [ARGUMENTS OF GO TEST]: unit and acceptance tests of both
# modules, or those of PACKAGES alone. One package at a time, since the
# acceptance tests measure time.
set -euo pipefail
cd "$(dirname "$0")/.."
cli=$1
shift
unset TF_CLI_CONFIG_FILE
export CHECKPOINT_DISABLE=1 TF_IN_AUTOMATION=1
export TF_ACC=1 TF_ACC_TERRAFORM_PATH=$cli
case "$("$cli" version)" in
OpenTofu*) export TF_ACC_PROVIDER_HOST=registry.opentofu.org ;;
esac
if [ -n "${PACKAGES:-}" ]; then
	exec go test -p 1 -timeout 75m "$@" $PACKAGES
fi
go vet ./...
go test -p 1 -timeout 75m "$@" ./...
# In the mode that the lab builds in, and not ./..., or all of Kubernetes would
# be compiled once more.
CGO_ENABLED=0 go -C internal/lab test -trimpath -p 1 -timeout 15m . ./server
tools/generate.sh "$cli" check
