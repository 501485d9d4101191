package loader

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// pdfOf is a file with a line of text on each page; an empty one is a page without. It has no table of its objects: readers make one.
func pdfOf(lines ...string) string {
	var b, kids strings.Builder
	for i, l := range lines {
		content := ""
		if l != "" {
			content = "BT /F1 12 Tf 72 700 Td (" + l + ") Tj ET"
		}
		fmt.Fprintf(&kids, "%d 0 R ", 10+2*i)
		fmt.Fprintf(&b, "%d 0 obj\n<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents %d 0 R/Resources<</Font<</F1 3 0 R>>>>>>\nendobj\n", 10+2*i, 11+2*i)
		fmt.Fprintf(&b, "%d 0 obj\n<</Length %d>>\nstream\n%s\nendstream\nendobj\n", 11+2*i, len(content), content)
	}
	return "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n" + fmt.Sprintf("2 0 obj\n<</Type/Pages/Count %d/Kids[%s]>>\nendobj\n", len(lines), kids.String()) +
		"3 0 obj\n<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>\nendobj\n4 0 obj\n<</Title(The file)/CreationDate(D:20240501)>>\nendobj\n" +
		b.String() + "trailer\n<</Root 1 0 R/Info 4 0 R>>\n%%EOF\n"
}

// docxOf is a file with a heading and a paragraph.
func docxOf(t testing.TB, heading, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range map[string]string{
		"word/document.xml": `<w:document xmlns:w="w"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>` + heading + `</w:t></w:r></w:p><w:p><w:r><w:t>` + text + `</w:t></w:r></w:p></w:body></w:document>`,
		"docProps/core.xml": `<c><title>The file</title><created>2024-05-01T10:00:00Z</created></c>`,
	} {
		w, err := z.Create(name)
		require.NoError(t, err)
		_, err = w.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.String()
}

func TestFetchDocuments(t *testing.T) {
	b := newBench(t, Config{})
	docx, pdf := docxOf(t, "Head", "Ada worked."), pdfOf("Ada worked.", "She left.")
	b.store["b/scan"] = []byte(pdf)
	for _, c := range []struct {
		name   string
		src    events.Source
		format string
		meta   graph.Meta
		markup string
		text   string
	}{
		{"docx", uploadedFile("d/a.docx", docx, nil), "docx", graph.Meta{Key: "d/a.docx", Title: "The file", PublishedAt: "2024-05-01T10:00:00Z"}, "markdown", "# Head\n\nAda worked."},
		{"what the event says wins", uploadedFile("a.docx", docx, &events.InputDocument{Title: "Mine", PublishedAt: "2020"}), "docx", graph.Meta{Key: "a.docx", Title: "Mine", PublishedAt: "2020"}, "markdown", "# Head\n\nAda worked."},
		{"docx by content", uploadedFile("report", docx, nil), "docx", graph.Meta{Key: "report", Title: "The file", PublishedAt: "2024-05-01T10:00:00Z"}, "markdown", "# Head\n\nAda worked."},
		{"pdf", uploadedFile("a.pdf", pdf, &events.InputDocument{Metadata: map[string]any{"pages": "mine"}}), "pdf", graph.Meta{Key: "a.pdf", Title: "The file", PublishedAt: "2024-05-01", Metadata: map[string]any{"pages": "mine"}}, "plain", "Ada worked.\n\nShe left."},
		{"pdf by content, out of the object store", events.Source{Token: "src", Name: "object:b/scan", Object: "b/scan"}, "pdf", graph.Meta{Key: "object:b/scan", Title: "The file", PublishedAt: "2024-05-01", Metadata: map[string]any{"pages": 2.0}}, "plain", "Ada worked.\n\nShe left."},
		{"xml", uploadedFile("a.xml", "<?xml version='1.0' encoding='iso-8859-1'?><book><title>Gr\xf6\xdfe</title><para>Ada worked.</para></book>", nil), "xml", graph.Meta{Key: "a.xml", Title: "Größe"}, "markdown", "# Größe\n\nAda worked."},
		{"a text without an extension", uploadedFile("README", "Ada worked.", nil), "text", graph.Meta{Key: "README", Title: "README"}, "plain", "Ada worked."},
		{"a page without an extension", uploadedFile("index", "<!doctype html><title>T</title><p>Ada worked.", nil), "html", graph.Meta{Key: "index", Title: "T"}, "markdown", "Ada worked."},
		{"front matter", uploadedFile("a.md", "---\ntitle: T\ndate: 2024-05\ntags: [x]\nlang: de\n---\nAda worked.", &events.InputDocument{Metadata: map[string]any{"lang": "en"}}), "markdown",
			graph.Meta{Key: "a.md", Title: "T", PublishedAt: "2024-05", Metadata: map[string]any{"lang": "en", "tags": []any{"x"}}}, "markdown", "Ada worked."},
		{"the event over the front matter", uploadedFile("a.md", "---\ntitle: T\ndate: 2024-05\n---\nAda worked.", &events.InputDocument{Title: "Mine", PublishedAt: "2020"}), "markdown", graph.Meta{Key: "a.md", Title: "Mine", PublishedAt: "2020"}, "markdown", "Ada worked."},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := b.fetched(testJob(), c.src)
			require.NoError(t, err)
			require.Len(t, out, 1, "the document alone: its source is exactly that")
			e := overTheWire(t, out[0]).(*events.Loaded)
			c.meta.ID, c.meta.Format = fingerprint.DocumentID(c.meta.Key), c.format
			require.Equal(t, c.meta, e.Meta)
			require.Equal(t, []any{c.markup, c.text, true}, []any{e.Markup, e.Text, e.Doc.Sole})
		})
	}
}

func TestFetchFilesByContent(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("Ada worked. ", 2000)
	for name, content := range map[string]string{"NOTES": long, "scan": pdfOf("On paper."), "blob": "\x7fELF\x00", "sheet.xlsx": "PK\x03\x04" + strings.Repeat("\x00", 30)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	b := newBench(t, Config{Roots: []string{dir}})
	out, faults := b.through(`{"sources":["."],"error_policy":"skip"}`)
	got := map[string]string{}
	for _, e := range out {
		l := e.(*events.Loaded)
		got[l.Meta.Key] = l.Text
	}
	require.Equal(t, map[string]string{"NOTES": long, "scan": "On paper."}, got)
	require.Len(t, faults, 2)
	require.Equal(t, "unsupported_format", fault.Of(faults["blob"]).Code)
	require.ErrorContains(t, faults["blob"], `"blob" is neither a text nor of a format that is read; these are: csv, `)
	require.Equal(t, "bad_docx", fault.Of(faults["sheet.xlsx"]).Code)
}

func TestFetchPagesWithoutText(t *testing.T) {
	b := newBench(t, Config{})
	src := uploadedFile("a.pdf", pdfOf("One.", "", "", "Four.", ""), nil)
	out, err := b.fetched(testJob(), src)
	require.NoError(t, err)
	require.Len(t, out, 2)
	e := out[0].(*events.Loaded)
	require.Equal(t, []any{"One.\n\nFour.", false}, []any{e.Text, e.Doc.Sole})
	require.Equal(t, map[string]any{"pages": 5, "pages_without_text": "2-3, 5"}, e.Meta.Metadata)
	token := fingerprint.Token("a.pdf")
	require.Equal(t, &events.Ended{Job: testJob(), Source: "src", Name: "a.pdf", Outcome: "listed", Documents: 1, Digest: digestOf(token), Failure: &graph.Failure{
		Stage: "loader", Item: "a.pdf", Code: "page_without_text", Message: "pages 2-3, 5 of 5 have no text: scanned, drawn or blank", TraceID: "trace"}}, out[1])

	src.Only, src.Try = "a.pdf", 1
	out, err = b.fetched(testJob(), src)
	require.NoError(t, err)
	require.Len(t, out, 1, "the source has ended already")
	require.Equal(t, []any{1, false}, []any{out[0].(*events.Loaded).Doc.Try, out[0].(*events.Loaded).Doc.Sole})

	src.Only, src.Try = "", 0
	b.committer.stored["a.pdf"] = graph.Stored{
		Open: true, Revision: 3, ContentHash: e.Doc.ContentHash, SchemaFP: "schema", ChunkerFP: "chunker", ExtractionFP: "extraction", MetaHash: e.Meta.MetaHash(),
	}
	out, err = b.fetched(testJob(), src)
	require.NoError(t, err)
	require.Len(t, out, 2, "an unchanged one is said again, too")
	require.Equal(t, events.OutcomeUnchanged, out[0].(*events.Ended).Outcome)
	require.Equal(t, "page_without_text", out[1].(*events.Ended).Failure.Code)
}

func TestFetchDocumentFaults(t *testing.T) {
	b := newBench(t, Config{})
	for _, c := range []struct {
		src           events.Source
		code, message string
	}{
		{uploadedFile("a.pdf", pdfOf("", ""), nil), "no_text_layer", "none of the PDF's 2 pages has text that can be read: it is scanned or drawn; run text recognition over it first"},
		{uploadedFile("a.pdf", "hello", nil), "bad_pdf", "the PDF is damaged: open it: 3: incorrect format"},
		{uploadedFile("a.docx", "hello", nil), "bad_docx", "the archive is damaged: zip: not a valid zip file"},
		{uploadedFile("a.docx", "", nil), "bad_docx", "the archive is damaged: zip: not a valid zip file"},
		{uploadedFile("a.pdf", "", nil), "bad_pdf", "the PDF is empty"},
		{inline(events.InputDocument{Key: "k", Text: "plain", Format: "pdf"}), "bad_pdf", "the PDF is damaged: open it: 3: incorrect format"},
		{uploadedFile("a.xml", "<a>&x;</a>", nil), "bad_xml", "line 1: invalid character entity &x;"},
		{uploadedFile("LICENSE", "Caf\xe9", nil), "bad_encoding", "not UTF-8 (first broken byte at 3) and no encoding is declared: save it as UTF-8"},
		{uploadedFile("a.csv", "id,text\nx,a\n,b\n", nil), "bad_record", "record 2 (line 3) has no id, others have"},
	} {
		out, err := b.fetched(testJob(), c.src)
		require.Empty(t, out)
		isFault(t, err, c.code, c.message)
	}
}

// TestInlineDocuments: a body that is a document's bytes, with its format said in a header or plain to see.
func TestInlineDocuments(t *testing.T) {
	docx := docxOf(t, "Head", "Ada worked.")
	ascii := strings.Replace(pdfOf("Ada worked."), "%\xe2\xe3\xcf\xd3\n", "", 1)
	for _, c := range []struct {
		name, body string
		headers    map[string]string
		format     string
		want       string
	}{
		{"bytes that tell", docx, map[string]string{"Factmill-Key": "k"}, "docx", "# Head\n\nAda worked."},
		{"bytes and a header", pdfOf("Ada worked."), map[string]string{"Factmill-Key": "k", "Factmill-Format": "PDF"}, "pdf", "Ada worked."},
		{"a file of ASCII only", ascii, map[string]string{"Factmill-Key": "k", "Factmill-Format": "pdf"}, "pdf", "Ada worked."},
		{"an event", `{"key":"k","format":"pdf","text":` + quote(t, ascii) + `}`, nil, "pdf", "Ada worked."},
		{"a page in its own encoding", "<meta charset=koi8-r><p>\xf0\xd2", map[string]string{"Factmill-Key": "k", "Factmill-Format": "html"}, "html", "Пр"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, Config{})
			out, err := b.listed(c.body, c.headers)
			require.NoError(t, err)
			sources, _, _ := found(t, out)
			require.Len(t, sources, 1)
			out, err = b.fetched(testJob(), sources[0])
			require.NoError(t, err)
			e := out[0].(*events.Loaded)
			require.Equal(t, []string{"k", c.format, c.want}, []string{e.Meta.Key, e.Meta.Format, e.Text})
		})
	}
}
