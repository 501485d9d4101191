package loader

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckFormat(t *testing.T) {
	for _, f := range append(Formats(), "MD", " Markdown ") {
		require.NoError(t, CheckFormat(f), f)
	}
	require.ErrorContains(t, CheckFormat("bogus"), `format "bogus" is not read; these are: `)
	require.ErrorContains(t, CheckFormat(" "), `is not read`)
}
