//go:build testbed_agent

package agent

import "embed"

// dist is empty in the agent itself, which shares packages with the provider
// but carries no agents.
var dist embed.FS
