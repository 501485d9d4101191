package export

import (
	"encoding/csv"
	"io"
	"strings"
)

// The head of the CSV files is the one that graph databases import in bulk: ":ID", ":LABEL", "name:type".

func columns(a attrs) (names, head []string) {
	names = sortedKeys(a)
	for _, n := range names {
		head = append(head, n+":"+a[n].String())
	}
	return names, head
}

func (g *collected) csvNodes(w io.Writer) error {
	names, head := columns(g.nodeAttrs)
	c := csv.NewWriter(w)
	if err := c.Write(append([]string{":ID", ":LABEL"}, head...)); err != nil {
		return err
	}
	err := g.nodes.each(func(n Node) error {
		return c.Write(record([]string{n.ID, strings.Join(n.Labels, ";")}, names, n.Props))
	})
	if err != nil {
		return err
	}
	c.Flush()
	return c.Error()
}

func (g *collected) csvEdges(w io.Writer) error {
	names, head := columns(g.edgeAttrs)
	c := csv.NewWriter(w)
	if err := c.Write(append([]string{"id:string", ":START_ID", ":END_ID", ":TYPE"}, head...)); err != nil {
		return err
	}
	err := g.edges.each(func(e Edge) error {
		return c.Write(record([]string{e.ID, e.Source, e.Target, e.Type}, names, e.Props))
	})
	if err != nil {
		return err
	}
	c.Flush()
	return c.Error()
}

func record(first, names []string, props map[string]any) []string {
	for _, n := range names {
		first = append(first, text(props[n]))
	}
	return first
}
