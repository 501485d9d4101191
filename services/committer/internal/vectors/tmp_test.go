package vectors

import (
	"fmt"
	"testing"
	"os"
	"strconv"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/crowd"
)

func TestTmpShape(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	for _, what := range []string{"persons", "organizations"} {
		x := newWords(embed.HashSize)
		c := crowd.New(5)
		var queries []string
		for len(x.slots) < n {
			s := c.Name(func() string { return makers[what](c) })
			x.add(uuid{byte(len(x.slots)), byte(len(x.slots) >> 8), byte(len(x.slots) >> 16)}, embed.Hash{}.Words(s), 0)
			if len(queries) < 400 && len(x.slots)%20 == 0 {
				queries = append(queries, c.Slip(s))
			}
		}
		fmt.Println(what, n, "groups", len(x.groups), "parts", len(x.parts), "common groups", len(x.common.groups), "commons", len(x.common.known))
		for i := range x.groups {
			g := &x.groups[i]
			fmt.Print(g.bar, "/", g.extra, ":", len(g.parts), " ")
		}
		fmt.Println()
		for i := range x.common.groups {
			g := &x.common.groups[i]
			fmt.Print(g.bar, "/", g.extra, ":", len(g.parts), " ")
		}
		fmt.Println()
		lists, bunches, names, more := 0, 0, 0, 0
		for i := range x.parts {
			for _, l := range x.parts[i].lists {
				if l.bunches != nil { lists++; bunches += len(l.bunches); names += l.names }
				more += len(l.more)
			}
		}
		fmt.Println("crowded lists", lists, "bunches", bunches, "names", names, "posts", more)
		up, down := 0, 0
		for _, s := range queries {
			q := newQuery(hashed(s), 50, .9)
			q.weigh()
			up += len(q.counts.rows); down += len(q.counts.down)
		}
		fmt.Println("up", up/len(queries), "down", down/len(queries))
	}
}
