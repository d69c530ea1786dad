#!/usr/bin/env bash
# what-holds.sh RUN...: makes the guide page "What holds of the study" from
# what-holds.md and from what the folders of runs tell.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || { echo "Name the results folder of a run: tools/what-holds.sh RUN..." >&2; exit 1; }
text=tools/what-holds.md
page=templates/guides/what-holds.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/provider" .
for run in "$@"; do
	# One at a time: how the runs differ from one another is no finding.
	"$work/provider" report -formats markdown -o "$work" "$run"
	# Its headings become those of a section.
	sed -n '2,$s/^##/###/; 2,$p' "$work/findings.md" >>"$work/measured"
done
sed -e "/^MEASURED$/{r $work/measured" -e "d}" "$text" >"$work/page"
cp "$work/page" "$page"
echo "$page has the numbers; run \"make generate\" to carry them over to docs/"
