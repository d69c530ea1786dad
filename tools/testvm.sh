#!/usr/bin/env bash
# testvm.sh CLI CACHE [ARGUMENTS OF GO TEST]: the tests that need machines of
# their own, TestVM... and TestAccVM..., beside the machines of the VM lab.
set -euo pipefail
cd "$(dirname "$0")/.."
cli=$1 cache=$2
shift 2
unset TF_CLI_CONFIG_FILE
export CHECKPOINT_DISABLE=1 TF_IN_AUTOMATION=1
export TF_ACC=1 TF_ACC_TERRAFORM_PATH=$cli
case "$("$cli" version)" in
OpenTofu*) export TF_ACC_PROVIDER_HOST=registry.opentofu.org ;;
esac
mapfile -t packages < <(git ls-files '*_test.go' | xargs grep -l '/internal/host/vmtest"' | xargs -n 1 dirname | sort -u | sed 's|^|./|')
exec go run ./internal/host/vmtest/vmlab -cache "$cache/vm" -- \
	go test -p 1 -count 1 -timeout 120m -run '^Test(Acc)?VM' "$@" "${packages[@]}"
