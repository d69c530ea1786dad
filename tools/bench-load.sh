#!/usr/bin/env bash
# bench-load.sh CACHE: builds and installs the load generators to compare with,
# then prints the comparison. It needs root, for a network namespace.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$1
CGO_ENABLED=0 go build -C tools/load -trimpath -o "$cache/" github.com/rakyll/hey fortio.org/fortio
if ! command -v wrk >/dev/null; then
	apt-get update >/dev/null
	apt-get install -y --no-install-recommends wrk >/dev/null
fi
go build -trimpath -o "$cache/loadbench" ./internal/bench/load/loadbench
exec "$cache/loadbench" -hey "$cache/hey" -fortio "$cache/fortio" -wrk "$(command -v wrk)"
