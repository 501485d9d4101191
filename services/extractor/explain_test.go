package extractor_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor"
)

// TestExplain runs the scripts in testdata/explain: a command "read" has a text under it and shows what was read; "schema" has
// a schema that holds for the commands after it.
func TestExplain(t *testing.T) {
	datadriven.Walk(t, "testdata/explain", func(t *testing.T, path string) {
		s := schema.Default()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "schema":
				parsed, err := schema.Parse([]byte(d.Input), "test.yaml", nil)
				if err != nil {
					return err.Error()
				}
				s = parsed
				return "ok"
			case "read":
				x, err := extractor.Explain(s, settings.Default(), fingerprint.Normalize(d.Input))
				if err != nil {
					return err.Error()
				}
				return strings.TrimRight(x.String(), "\n")
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}
