#!/usr/bin/env bash
# Prints the tofu or terraform to use: 1.11 or newer from PATH, else OpenTofu
# in the cache folder, which "cli.sh CACHE build" builds.
set -euo pipefail
cache=$1
unset TF_CLI_CONFIG_FILE

recent() {
	local version
	version=$("$1" version -json 2>/dev/null | sed -n 's/.*"terraform_version": *"\([0-9.]*\).*/\1/p')
	[ -n "$version" ] && [ "$(printf '%s\n1.11\n' "$version" | sort -V | head -1)" = 1.11 ]
}

for name in tofu terraform; do
	path=$(command -v "$name") || continue
	if recent "$path"; then
		[ "${2:-}" = build ] || echo "$path"
		exit 0
	fi
done

if [ "${2:-}" = build ]; then
	if [ ! -x "$cache/tofu" ]; then
		echo "Building OpenTofu, since neither tofu nor terraform 1.11 or newer is in PATH (about 7 minutes, once)"
		mkdir -p "$cache"
		cd "$(dirname "$0")/opentofu"
		CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/opentofu/opentofu/version.dev=no" -o "$cache/tofu.new" github.com/opentofu/opentofu/cmd/tofu
		mv "$cache/tofu.new" "$cache/tofu"
	fi
else
	echo "$cache/tofu"
fi
