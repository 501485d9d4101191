package parse

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
)

func all(t testing.TB, format, text string) ([]Record, error) {
	t.Helper()
	s, err := New(format, text)
	if err != nil {
		return nil, err
	}
	var out []Record
	err = s.Each(func(r Record) error {
		r.At = Place{} // TestPlaces looks at it
		out = append(out, r)
		return nil
	})
	return out, err
}

func bad(t *testing.T, err error, code, message string) {
	t.Helper()
	require.EqualError(t, err, message)
	require.Equal(t, fault.Document, fault.Of(err).Class)
	require.Equal(t, code, fault.Of(err).Code)
}

func TestFormat(t *testing.T) {
	for _, c := range []struct{ given, name, want string }{
		{"", "a/b.txt", Text}, {"", "x.MD", Markdown}, {"", "x.HtM", HTML}, {"", "x.csv", CSV}, {"", "x.tsv", TSV},
		{"", "x.json", JSON}, {"", "x.ndjson", JSONL}, {"markdown", "x.txt", Markdown}, {" HTML ", "", HTML}, {"text", "README", Text},
		{"", "x.XML", XML}, {"", "x.nxml", XML}, {"", "a.docx", DOCX}, {"", "a.PDF", PDF},
	} {
		got, err := Format(c.given, c.name)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%+v", c)
	}
	list := "csv, dbk, docbook, docx, htm, html, jats, json, jsonl, log, markdown, md, mdown, mkd, ndjson, nxml, pdf, plain, rst, tab, tei, text, tsv, txt, xhtml, xml"
	_, err := Format("", "x.dat")
	bad(t, err, "unsupported_format", `format "dat" is not read; these are: `+list)
	_, err = Format("", "README")
	bad(t, err, "unsupported_format", `"README" has no extension to tell its format: name it with format`)
	_, err = Format("exe", "x.txt")
	bad(t, err, "unsupported_format", `format "exe" is not read; these are: `+list)
}

func TestFirstHeading(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"# A\n## B\n", "A"}, {"intro\n\n## Deep  one ##\n", "Deep one"}, {"Title\n=====\nx", "Title"}, {"Title\r\n-----\r\nx", "Title"},
		{"```\n# code\n```\n# Real", "Real"}, {"~~~\n# code\n", ""}, {"#nospace\n#\n", ""}, {"####### seven", ""}, {"    # indented", ""},
		{"plain", ""}, {"", ""}, {"\uFEFF# A", ""}, {"| a |\n---\n", ""}, {"- item\n---\n", ""}, {"# C#", "C#"}, {"\n---\n", ""},
		{"# " + strings.Repeat("x", 600), strings.Repeat("x", 512)}, {"# a\rb", "a"},
	} {
		require.Equal(t, c.want, FirstHeading(c.in), "%q", c.in)
	}
}

func TestTextAndMarkdown(t *testing.T) {
	got, err := all(t, Text, "# not a title\x01 kept")
	require.NoError(t, err)
	require.Equal(t, []Record{{Text: "# not a title\x01 kept"}}, got)
	got, err = all(t, Markdown, "# A title\n\ntext")
	require.NoError(t, err)
	require.Equal(t, []Record{{Text: "# A title\n\ntext", Title: "A title"}}, got)
	for format, markup := range map[string]string{Text: "plain", Markdown: "markdown", HTML: "markdown", CSV: "plain", JSONL: "plain"} {
		s, err := New(format, "")
		require.NoError(t, err)
		require.Equal(t, markup, s.Markup(), format)
	}
}

func TestCSV(t *testing.T) {
	for _, c := range []struct {
		name, format, text string
		want               []Record
	}{
		{"rows without a text", CSV, "name,role\nAnn,CEO\nBob,\n", []Record{{ID: "0", Text: "name: Ann\nrole: CEO"}, {ID: "1", Text: "name: Bob"}}},
		{"mark, quotes, CRLF", CSV, "\uFEFFname,note\r\n\"Ann, B\",\"say \"\"hi\"\"\nnow\"\r\n", []Record{{ID: "0", Text: "name: Ann, B\nnote: say \"hi\"\nnow"}}},
		{"tabs", TSV, "name\trole\nAnn\tCEO\n", []Record{{ID: "0", Text: "name: Ann\nrole: CEO"}}},
		{"semicolons", CSV, "name;role\nAnn;CEO\n", []Record{{ID: "0", Text: "name: Ann\nrole: CEO"}}},
		{"fields", CSV, "ID,Text,Title,published_at,content_date,source_updated_at,scope,metadata.Lang,author\nx1,Hello.,T,2024,2024-05,2024-05-01,a;b,en,Ann\n",
			[]Record{{ID: "x1", Text: "Hello.", Title: "T", PublishedAt: "2024", ContentDate: "2024-05", SourceUpdatedAt: "2024-05-01",
				Scope: graph.Scope{"a", "b"}, Metadata: map[string]any{"Lang": "en", "author": "Ann"}}}},
		{"date without a text is content too", CSV, "id,name,date,metadata.x\n7,Ann,2024,y\n", []Record{{ID: "7", Text: "name: Ann\ndate: 2024", ContentDate: "2024", Metadata: map[string]any{"x": "y"}}}},
		{"text is kept as it is", CSV, "text\n\"  a \n b\"\n", []Record{{ID: "0", Text: "  a \n b"}}},
		{"no name", CSV, "a,,\n1,2,\n", []Record{{ID: "0", Text: "a: 1\ncolumn 2: 2"}}},
		{"empty id falls back", CSV, "id,text\n,x\n", []Record{{ID: "0", Text: "x"}}},
		{"header only", CSV, "a,b\n", nil},
		{"empty", CSV, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := all(t, c.format, c.text)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestCSVRefuses(t *testing.T) {
	_, err := all(t, CSV, "a,b\n1,2\n3\n")
	bad(t, err, "bad_record", "record 2 (line 3) has 1 of the header's 2 columns")
	_, err = all(t, CSV, "a,b\n1,\"2\n")
	bad(t, err, "bad_record", `record 1 (line 2): extraneous or missing " in quoted-field at column 6 of line 2`)
	_, err = all(t, CSV, "text,Text\n")
	bad(t, err, "bad_csv", `the header has the column "Text" twice`)
	_, err = all(t, CSV, "a\"b\n")
	bad(t, err, "bad_csv", `read the header: parse error on line 1, column 2: bare " in non-quoted-field`)
	_, err = all(t, CSV, strings.Repeat(",", MaxFields)+"\n")
	bad(t, err, "too_many_fields", "a row has more than 4096 columns")
	_, err = all(t, CSV, strings.Repeat("x", 513)+",b\n")
	bad(t, err, "bad_csv", "column 1 has a name of 513 bytes: at most 512")
	got, err := all(t, CSV, "text\n\""+strings.Repeat(",", MaxFields)+"\"\n")
	require.NoError(t, err)
	require.Len(t, got[0].Text, MaxFields)
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		name, text string
		single     bool
		want       []Record
	}{
		{"one object with a text", `{"text":"Hi \u00e9","title":" T ","author":{"n":1},"metadata":{"author":"given","k":[1]},"scope":"s","date":"2024"}`, true,
			[]Record{{Text: "Hi é", Title: "T", ContentDate: "2024", Scope: graph.Scope{"s"}, Metadata: map[string]any{"author": "given", "k": []any{int64(1)}}}}},
		{"one object without", `{"name":"Ann","size":12,"tags":["a","b",null],"ok":true,"none":null,"org":{"name":"Acme","sites":[{"city":"Rome"}]}}`, true,
			[]Record{{Text: "name: Ann\nsize: 12\ntags: a, b\nok: true\norg.name: Acme\norg.sites.city: Rome"}}},
		{"array", ` [ {"id":"a","text":"1"} , {"id":7,"text":"2"} ] `, false, []Record{{ID: "a", Text: "1"}, {ID: "7", Text: "2"}}},
		{"records", "\uFEFF" + `{"meta":{"x":[1,"]"]},"records":[{"text":"1"}]}`, false, []Record{{ID: "0", Text: "1"}}},
		{"documents", `{"documents":[{"text":""}]}`, false, []Record{{ID: "0"}}},
		{"empty array", `[]`, false, nil},
		{"escapes in the way", `[{"a\"}]":"x\\","text":"\"}"}]`, false, []Record{{ID: "0", Text: `"}`, Metadata: map[string]any{`a"}]`: `x\`}}}},
		{"last of two wins", `{"text":"a","text":"b"}`, true, []Record{{Text: "b"}}},
		{"null id", `[{"id":null,"text":"x"}]`, false, []Record{{ID: "0", Text: "x"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(JSON, c.text)
			require.NoError(t, err)
			require.Equal(t, c.single, s.Single())
			got, err := all(t, JSON, c.text)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestJSONRefuses(t *testing.T) {
	for _, c := range []struct{ text, code, message string }{
		{"", "bad_json", "not valid JSON: unexpected end of JSON input at byte 0"},
		{`{"a":}`, "bad_json", "not valid JSON: invalid character '}' looking for beginning of value at byte 6"},
		{`"text"`, "bad_json", "the text is neither an object nor an array of objects"},
		{`[{"text":"a"},1]`, "bad_record", "record 2 (line 1) is not an object"},
		{`[{"text":1}]`, "bad_record", "record 1 (line 1): text is not a string"},
		{`[{"text":null}]`, "bad_record", "record 1 (line 1): text is not a string"},
		{`[{"text":"a","id":[1]}]`, "bad_record", "record 1 (line 1): id is neither a string nor a number"},
		{`[{"text":"a","scope":1}]`, "bad_record", "record 1 (line 1): scope is neither a label nor a list of labels"},
		{`[{"text":"a","metadata":[]}]`, "bad_record", "record 1 (line 1): metadata is not an object"},
		{`{"text":"a","x":"` + strings.Repeat("y", 65<<10) + `"}`, "bad_record", "the document: its fields besides the text have more than 65536 bytes"},
		{`{"records":[],"documents":[]}`, "bad_json", `both "records" and "documents" are lists: which one holds the documents cannot be told`},
		{`{"a":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, "too_deep", "the document: it is nested more than 64 deep"},
		{`[` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + `]`, "bad_json", "not valid JSON: invalid character '[' exceeded max depth at byte 10001"},
	} {
		_, err := all(t, JSON, c.text)
		bad(t, err, c.code, c.message)
	}
	var wide strings.Builder
	for i := range MaxFields + 1 {
		fmt.Fprintf(&wide, `"k%d":1,`, i)
	}
	_, err := all(t, JSON, "[{"+strings.TrimSuffix(wide.String(), ",")+"}]")
	bad(t, err, "too_many_fields", "record 1 (line 1): an object has more than 4096 fields")

	long := strings.Repeat("n", 64<<10)
	_, err = all(t, JSON, `{"`+long+`":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}}`)
	bad(t, err, "too_large", "the document: as text it has more than 327828 bytes")
}

func TestJSONL(t *testing.T) {
	got, err := all(t, JSONL, "{\"text\":\"1\",\"title\":\"a\"}\r\n\n  \n{\"text\":\"2\"}")
	require.NoError(t, err)
	require.Equal(t, []Record{{ID: "0", Text: "1", Title: "a"}, {ID: "1", Text: "2"}}, got)
	_, err = all(t, JSONL, "{\"text\":\"1\"}\n{\"text\":\n")
	bad(t, err, "bad_record", "record 2 (line 2) is not valid JSON: unexpected end of JSON input at byte 8")
	got, err = all(t, JSONL, "\n")
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestTooManyRecords(t *testing.T) {
	_, err := all(t, CSV, "a\n"+strings.Repeat("1\n", MaxRecords+1))
	bad(t, err, "too_many_records", "the source has more than 1000000 records: split it")
}

func TestHTML(t *testing.T) {
	for _, c := range []struct{ name, in, want, title string }{
		{"paragraphs", "<title> The  Page </title><p>One\n two</p><p>Three <b>bold</b>ly&nbsp;said &lt;x&gt; &amp; &eacute;<br>next", "One two\n\nThree boldly\u00a0said <x> & é\nnext", "The Page"},
		{"headings", "<h1>A <i>b</i></h1>text<h3><div>C</div></h3><p>d</p>", "# A b\n\ntext\n\n### C\n\nd", "A b"},
		{"the frame goes", "<nav>menu<p>x</nav><header><h1>Site</h1></header><main><header><h1>Head</h1></header><p>In</p></main><aside>ad</aside><footer>f</footer><script>if(a<b){'</p>'}</script><style>p{}</style><noscript>n</noscript>", "# Head\n\nIn", "Head"},
		{"an open frame ends with its parent", "<div><nav>menu<ul><li>x</div><p>In</p>", "In", ""},
		{"lists", "<ul><li>a<li>b<ol><li>c</li><li><p>d</p><p>e</p></li></ol></ul><p>after</p>", "- a\n- b\n  1. c\n  2. d\n\ne\n\nafter", ""},
		{"table", "<p>t</p><table><caption>Staff</caption><thead><tr><th>Name<th>Role</thead><tbody><tr><td>Ann<td>CEO|<br>CTO<tr><td colspan=2>Bob</table><p>u</p>",
			"t\n\nStaff\n\n| Name | Role |\n|---|---|\n| Ann | CEO\\| CTO |\n| Bob |  |\n\nu", ""},
		{"table without a header", "<table><tr><td>Ann</td><td>CEO</td></tr></table>", "|  |  |\n|---|---|\n| Ann | CEO |", ""},
		{"table with row headers", "<table><tr><th>Name</th><td>Ann</td></tr></table>", "|  |  |\n|---|---|\n| Name | Ann |", ""},
		{"thead only", "<table><thead><tr><th>Name</th><th>Role</th></tr></thead></table>", "| Name | Role |\n|---|---|", ""},
		{"table in a table", "<table><tr><td>a<table><tr><td>b</td><td>c</td></tr></table>d</td><td>e</td></tr></table>", "|  |  |\n|---|---|\n| a \\| b \\| c \\| d | e |", ""},
		{"text astray in a table", "<table>stray<tr><td>a</td></tr></table>", "|  |\n|---|\n| stray |\n| a |", ""},
		{"code", "<pre>\n a\n  b &lt;\n</pre><p>x", "```\n a\n  b <\n```\n\nx", ""},
		{"code with a fence", "<pre>```</pre>", "``````\n```\n``````", ""},
		{"open to the end", "<h2>T<p>a<table><tr><td>b", "## T\n\na\n\n|  |\n|---|\n| b |", "T"},
		{"a title in a drawing is none", "<svg><title>icon</title></svg><p>x", "x", ""},
		{"no markup at all", "just text", "just text", ""},
		{"empty", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := all(t, HTML, c.in)
			require.NoError(t, err)
			require.Equal(t, []Record{{Text: c.want, Title: c.title}}, got)
		})
	}
}

func TestHTMLIsLinear(t *testing.T) {
	for _, piece := range []string{"<div>", "<ul><li>", "</div>", "<table><tr><td>", "<b><nav>", "<pre>", "<", "<h1>", "<!--", "&", "<title>", "<td colspan=99>", "<br>"} {
		text := strings.Repeat(piece, 1<<20/len(piece))
		got, err := all(t, HTML, text)
		require.NoError(t, err, piece)
		require.LessOrEqual(t, len(got[0].Text), 8<<20, piece)
	}
}

func FuzzParse(f *testing.F) {
	formats := []string{Text, Markdown, HTML, CSV, TSV, JSON, JSONL, XML}
	for i := range formats {
		f.Add(uint8(i), "a,b\n1,\"2\n\"")
		f.Add(uint8(i), `{"records":[{"text":"a","id":1,"metadata":{"x":null}}]}`)
		f.Add(uint8(i), `[{"a":{"b":["\ud800",{}]}}]`)
		f.Add(uint8(i), "<table><caption>c<tr><th>x<td><table><pre></table><li><ol></nav>")
		f.Add(uint8(i), "# T\r\n```\n===\n")
		f.Add(uint8(i), "sep=\t\r\"a\"\tb\r1\t\"x\ry\"\r\"\t\"\"\r")
		f.Add(uint8(i), "---\ntitle: T\ndate: 2024\ntags: [a, *x, 1]\n---\nx")
		f.Add(uint8(i), "<?xml version='1.0'?><d><p>a<fn><table><row><entry>b</entry></row></table></fn> c</p><sec><title>t</title></sec></d>")
		f.Add(uint8(i), "<p hidden>a<span hidden><span>b</span></span><table role=none><td hidden>c<tr hidden>")
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		format := formats[int(which)%len(formats)]
		text = strings.ToValidUTF8(text, "?")
		first, err := all(t, format, text)
		second, again := all(t, format, text)
		require.Equal(t, first, second)
		if err != nil {
			require.EqualError(t, again, err.Error())
			require.Equal(t, fault.Document, fault.Of(err).Class, "%v", err)
			return
		}
		if Single(format) {
			require.Len(t, first, 1)
		}
	})
}

func BenchmarkHTML(b *testing.B) {
	page := "<html><head><title>T</title></head><body><nav>x</nav><main>" + strings.Repeat("<h2>Head</h2><p>Ada <b>Lovelace</b> worked with &amp; for Acme.</p><ul><li>one<li>two</ul>", 40) + "</main></body></html>"
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if _, err := all(b, HTML, page); err != nil {
			b.Fatal(err)
		}
	}
}

func TestCountIncludesRecordsAtFault(t *testing.T) {
	for _, c := range []struct {
		format, text string
		want         int
	}{
		{CSV, "a,b\n1,2\n3\n4,5\n", 3}, {CSV, "a;b\n1;2\n", 1}, {CSV, "a,b\n\"x\"y,2\n3,4\n", 2}, {CSV, "a,b\n", 0}, {CSV, "", 0},
		{TSV, "a\tb\n1\t2\n\n3\t4", 2}, {JSONL, "{}\n\nnot json\n{}", 3}, {JSON, `[{"text":"a"}, 7, [1,2]]`, 3}, {JSON, `{"records":[{},{}]}`, 2},
		{JSON, `{"text":"one"}`, 0}, {Text, "a\nb", 0}, {Markdown, "# a", 0},
		{CSV, "a\n" + strings.Repeat(",", MaxFields+1) + "\n", 0},
	} {
		s, err := New(c.format, c.text)
		require.NoError(t, err)
		require.Equal(t, c.want, s.Count(), "%s %.40q", c.format, c.text)
	}
}
