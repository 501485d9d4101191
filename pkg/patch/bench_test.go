package patch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/schema"
)

// BenchmarkApply: a file of 2,000 types, 500 of which change.
func BenchmarkApply(b *testing.B) {
	var t strings.Builder
	t.WriteString("entities:\n")
	for i := range 1000 {
		fmt.Fprintf(&t, "  Type%d:\n    description: A thing. # %d\n    properties:\n      size: integer\n", i, i)
	}
	t.WriteString("relations:\n")
	for i := range 990 {
		fmt.Fprintf(&t, "  REL_%d: {patterns: [\"Type%d->Type%d\"], description: How.}\n", i, i, i)
	}
	s, err := schema.Parse([]byte(t.String()), "s.yaml", nil)
	require.NoError(b, err)
	p := grow(s)
	p.AddProperties, p.Additions.Relations = p.AddProperties[:250], p.Additions.Relations[:251]
	for b.Loop() {
		_, err := Apply([]byte(t.String()), "s.yaml", nil, p)
		require.NoError(b, err)
	}
}

// BenchmarkBuild: 100,000 approved records of 1,000 labels.
func BenchmarkBuild(b *testing.B) {
	s, err := schema.Parse([]byte(solar), "s.yaml", nil)
	require.NoError(b, err)
	var items []Item
	for i := range 50_000 {
		items = append(items, entity(fmt.Sprintf("00000000-0000-5000-8000-%012d", i), fmt.Sprint("Type", i%1000), fmt.Sprint("Thing ", i), 1),
			relation(fmt.Sprintf("00000000-0000-5000-9000-%012d", i), fmt.Sprint("REL_", i%1000), "Planet", "a", fmt.Sprint("Type", i%1000), "b", 1))
	}
	for b.Loop() {
		Build(items, s)
	}
}
