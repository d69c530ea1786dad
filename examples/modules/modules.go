// Package modules embeds the example modules, so that an experiment can be
// written together with those it is made of.
package modules

import "embed"

// FS holds a folder of .tf files for each module.
//
//go:embed */*.tf
var FS embed.FS
