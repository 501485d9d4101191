package integration

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// wordFile is a DOCX file with a title, a heading by style, a list, a table and text that was deleted.
func wordFile(t testing.TB) []byte {
	t.Helper()
	p := func(style, text string) string {
		return `<w:p><w:pPr><w:pStyle w:val="` + style + `"/></w:pPr><w:r><w:t>` + text + `</w:t></w:r></w:p>`
	}
	cell := func(text string) string { return "<w:tc>" + p("", text) + "</w:tc>" }
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, part := range [][2]string{
		{"word/document.xml", `<w:document xmlns:w="w"><w:body>` + p("Heading1", "Staff") + `<w:p><w:r><w:t>Ada Lovelace works for </w:t></w:r><w:del><w:r><w:delText>Old Ltd</w:delText></w:r></w:del><w:r><w:t>Acme Ltd.</w:t></w:r></w:p>` +
			`<w:tbl><w:tblPr><w:tblLook w:firstRow="1"/></w:tblPr><w:tr>` + cell("Name") + cell("Role") + "</w:tr><w:tr>" + cell("Bob") + cell("CEO") + "</w:tr></w:tbl></w:body></w:document>"},
		{"docProps/core.xml", "<c><title>The report</title><created>2024-05-01T10:00:00Z</created></c>"},
	} {
		w, err := z.Create(part[0])
		require.NoError(t, err)
		_, err = w.Write([]byte(part[1]))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// pdfFile is a PDF file with a line of text on each page; an empty one is a page without. It has no table of its objects: readers
// make one.
func pdfFile(lines ...string) []byte {
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
	return []byte("%PDF-1.7\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n" + fmt.Sprintf("2 0 obj\n<</Type/Pages/Count %d/Kids[%s]>>\nendobj\n", len(lines), kids.String()) +
		"3 0 obj\n<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>\nendobj\n" + b.String() + "trailer\n<</Root 1 0 R>>\n%%EOF\n")
}

// TestDocumentFiles: a Word file and a PDF become facts whose quotes are slices of their text; a page without text is said and
// fails nothing, a file without any fails alone.
func TestDocumentFiles(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	for name, content := range map[string][]byte{
		"report.docx": wordFile(t),
		"paper.pdf":   pdfFile("Grace Hopper works for Acme Ltd.", "", "She lives in London."),
		"scan.pdf":    pdfFile("", ""),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o644))
	}
	r := runIn(t, dir, "", "run", "report.docx", "paper.pdf", "scan.pdf", "--data", data, "--error-policy", "skip", "--json")
	require.Equal(t, 4, r.code, "%s\n%s", r.stdout, r.stderr)
	var s api.JobStatus
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &s), r.stdout)
	require.Equal(t, []any{"committed", 2, 1, 0}, []any{s.State, s.Documents.Added, s.Documents.Skipped, s.Documents.Failed})
	in := s.Stages.Ingestion
	failures := map[string]graph.Failure{}
	for _, f := range in.Failures.List {
		f.TraceID = ""
		failures[f.Item] = f
	}
	require.Equal(t, map[string]graph.Failure{
		"paper.pdf": {Stage: "loader", Item: "paper.pdf", Code: "page_without_text", Message: "page 2 of 3 has no text: scanned, drawn or blank"},
		"scan.pdf": {Stage: "loader", Item: "scan.pdf", Code: "no_text_layer",
			Message: "none of the PDF's 2 pages has text that can be read: it is scanned or drawn; run text recognition over it first"},
	}, failures)

	out := runIn(t, dir, "", "export", "--canonical", "--data", data)
	require.Zero(t, out.code, out.stderr)
	documents, chunks, quotes := map[string]map[string]any{}, map[string][]string{}, []string{}
	for line := range strings.Lines(out.stdout) {
		var row map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		switch row["kind"] {
		case "document":
			documents[row["key"].(string)] = row
		case "chunk":
			key := row["document"].(string)
			chunks[key] = append(chunks[key], row["text"].(string))
			if row["text"] == "| Name | Role |\n|---|---|\n| Bob | CEO |" {
				require.Equal(t, []any{"Staff"}, row["heading_path"])
			}
		case "relation":
			for _, e := range row["evidence"].([]any) {
				quotes = append(quotes, e.(map[string]any)["quote"].(string))
			}
		}
	}
	require.Len(t, documents, 2)
	require.Equal(t, []any{"The report", "2024-05-01T10:00:00Z"}, []any{documents["report.docx"]["title"], documents["report.docx"]["published_at"]})
	require.Equal(t, map[string]any{"pages": 3.0, "pages_without_text": "2"}, documents["paper.pdf"]["metadata"])
	require.Contains(t, strings.Join(chunks["report.docx"], "\n"), "# Staff")
	require.Contains(t, chunks["report.docx"], "| Name | Role |\n|---|---|\n| Bob | CEO |")
	require.NotContains(t, out.stdout, "Old Ltd")
	require.Equal(t, []string{"Grace Hopper works for Acme Ltd.\n\nShe lives in London."}, chunks["paper.pdf"])
	require.Contains(t, quotes, "Ada Lovelace works for Acme Ltd.")
	require.Contains(t, quotes, "Grace Hopper works for Acme Ltd.")
}
