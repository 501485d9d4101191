package query

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// BenchmarkCluster reads an entity that many others are linked to, and as many wait beside it.
func BenchmarkCluster(b *testing.B) {
	for _, n := range []int{3, 20, 199} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := newDesk(b)
			x := newDoc("a", "Mara Velt was there.").say("Person:Mara Velt")
			var rows []string
			for i := range n {
				e := fmt.Sprintf("Person:Mara %c%c. Velt", 'A'+i/26, 'a'+i%26)
				x.mentionAt(e, "Mara Velt", 0, 0)
				rows = append(rows, "Person:Mara Velt ~ "+e+" | middle_name 0.9 active")
			}
			d.commit(x)
			d.link(rows...)
			for b.Loop() {
				got, err := d.q.Entity(b.Context(), g, api.EntityGet{Type: "Person", Name: "Mara Velt"})
				require.NoError(b, err)
				require.Len(b, got.Cluster.Members, n+1)
			}
		})
	}
	b.Run("none", func(b *testing.B) {
		d := newDesk(b)
		d.commit(newDoc("a", "Mara Velt was there.").say("Person:Mara Velt"))
		for b.Loop() {
			_, err := d.q.Entity(b.Context(), g, api.EntityGet{Type: "Person", Name: "Mara Velt"})
			require.NoError(b, err)
		}
	})
}
