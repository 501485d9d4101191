package render

import (
	"fmt"
	"io"

	"github.com/factmill/factmill/pkg/api"
)

// Documents shows a page of documents; first says that it is the first page. Further ones go on without a head.
func Documents(w io.Writer, r api.DocumentListReply, first bool) error {
	p := &printer{w: w}
	if len(r.Documents) == 0 && first && r.Next == "" {
		if r.Total == 0 {
			p.f("no documents: factmill ingest PATH puts some in")
		} else {
			p.f("no document's key begins so, of %s in the graph", Count(r.Total, "document", "documents"))
		}
	}
	head := []string{"KEY", ">VERSION", ">CHUNKS", "SINCE", "TITLE"}
	if !first {
		head = []string{"", ">", ">", "", ""}
	}
	t := NewTable(head...).Cap(4, 60)
	for _, d := range r.Documents {
		t.Row(d.Key, fmt.Sprint(d.Version), Number(d.Chunks), Time(d.FromTime), d.Title)
	}
	p.table(t)
	return p.err
}

// Entities shows a page of entities.
func Entities(w io.Writer, r api.EntityListReply, first bool) error {
	p := &printer{w: w}
	if len(r.Entities) == 0 && first && r.Next == "" {
		p.f("no entities")
	}
	head := []string{"NAME", "TYPE", ">MENTIONS", ">DOCUMENTS", "ID"}
	if !first {
		head = []string{"", "", ">", ">", ""}
	}
	t := NewTable(head...).Cap(0, 60)
	for _, e := range r.Entities {
		t.Row(e.Name, e.Type, Number(e.MentionsTotal), Number(e.DocumentsTotal), e.ID)
	}
	p.table(t)
	return p.err
}

// Facts shows a page of relations, each with a sentence that says so.
func Facts(w io.Writer, r api.RelationListReply, first bool) error {
	p := &printer{w: w}
	if len(r.Relations) == 0 && first && r.Next == "" {
		p.f("no facts")
	}
	for _, x := range r.Relations {
		p.relation("", x, 1)
	}
	return p.err
}
