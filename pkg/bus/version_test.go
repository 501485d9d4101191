package bus

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSemver(t *testing.T) {
	for in, want := range map[string]string{
		"1.2.3":                    "1.2.3",
		"v1.2.3":                   "1.2.3",
		"v1.2.3-4-gabcdef0-dirty":  "1.2.3-4-gabcdef0-dirty",
		"1.2.3+linux.7":            "1.2.3+linux.7",
		"":                         "0.0.0",
		"dev":                      "0.0.0+dev",
		"3b139aa-dirty":            "0.0.0+3b139aa-dirty",
		"1.2":                      "0.0.0+1-2",
		"1.2.3-01":                 "0.0.0+1-2-3-01",
		"release of May 4th, 2026": "0.0.0+release-of-May-4th-2026",
		"…":                        "0.0.0",
	} {
		require.Equal(t, want, semver(in), in)
	}
}
