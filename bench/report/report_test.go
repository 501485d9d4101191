package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReport(t *testing.T) {
	r := &Report{Bench: "x", Machine: Machine{OS: "plan9", Arch: "mips", CPUs: 2}}
	r.Add("documents", "", 1000, "")
	r.AtLeast("speed", "docs/s", 432.1, 400, "all-in-one")
	require.True(t, r.OK())
	r.AtMost("CPU a document", "ms", 3.456, 3, "")
	require.False(t, r.OK())
	r.AtLeast("speed", "docs/s", 12.3, 400, "")
	var b bytes.Buffer
	require.NoError(t, r.Table(&b))
	_, table, _ := bytes.Cut(b.Bytes(), []byte("\n"))
	require.Equal(t, `       documents   1000
           speed    432  docs/s  ≥ 400   holds    all-in-one
  CPU a document   3.46      ms    ≤ 3  MISSED
           speed   12.3  docs/s  ≥ 400  MISSED
`, string(table))
	b.Reset()
	require.NoError(t, r.JSON(&b))
	require.Contains(t, b.String(), `{"name":"CPU a document","unit":"ms","value":3.456,"limit":3,"limit_is_upper":true,"ratio_to_limit":1.152,"ok":false}`)
}
