#!/usr/bin/env bash
# generate.sh CLI [check]: writes docs/ from the provider's schemas, templates/
# and examples/. With check, fails when what is in docs/ differs from that.
set -euo pipefail
cd "$(dirname "$0")/.."
cli=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

CGO_ENABLED=0 go build -trimpath -o "$work/terraform-provider-testbed" .
cat >"$work/cli.tfrc" <<EOF
provider_installation {
  dev_overrides {
    "registry.terraform.io/terraform-testbed/testbed" = "$work"
  }
}
EOF
cat >"$work/main.tf" <<EOF
terraform {
  required_providers {
    testbed = { source = "registry.terraform.io/terraform-testbed/testbed" }
  }
}
EOF
(cd "$work" && TF_CLI_CONFIG_FILE=$work/cli.tfrc "$cli" providers schema -json) |
	sed 's#"registry.terraform.io/terraform-testbed/testbed"#"testbed"#' >"$work/schema.json"

target=$PWD
if [ "${2:-}" = check ]; then
	target=$work/checkout
	mkdir "$target"
	cp -r examples templates docs main.go go.mod "$target"
fi
go -C tools tool tfplugindocs generate --provider-dir "$target" --provider-name testbed \
	--rendered-provider-name Testbed --providers-schema "$work/schema.json" >"$work/log" 2>&1 ||
	{ cat "$work/log" >&2; exit 1; }
if [ "$target" != "$PWD" ] && ! diff -r "$target/docs" docs; then
	echo "docs/ is stale: run \"make generate\" and commit what it changes" >&2
	exit 1
fi
