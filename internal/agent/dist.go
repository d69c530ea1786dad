//go:build !testbed_agent

package agent

import "embed"

//go:embed dist
var dist embed.FS
