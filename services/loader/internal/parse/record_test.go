package parse

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		name, format, text string
		want               []Place
	}{
		{"rows", CSV, "a,b\n1,\"two\nlines\"\n\n3,4\n", []Place{{1, 2}, {2, 5}}},
		{"tabs, CRLF", TSV, "a\tb\r\n1\t2\r\n3\t4", []Place{{1, 2}, {2, 3}}},
		{"lines", JSONL, "{}\n\n{}\n", []Place{{1, 1}, {2, 3}}},
		{"array", JSON, "\n[{\"a\":1},\n\n {\"b\":\n2}, {}\n]", []Place{{1, 2}, {2, 4}, {3, 5}}},
		{"list in an object", JSON, "{\n\"x\": [{\"a\":\n1}],\n\"records\": [\n{\"a\":\n1}]}", []Place{{1, 5}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(c.format, c.text)
			require.NoError(t, err)
			for range 2 { // it may be read again
				var got []Place
				require.NoError(t, s.Each(func(r Record) error { got = append(got, r.At); return nil }))
				require.Equal(t, c.want, got)
			}
		})
	}
}

func TestIDsAreAllOrNone(t *testing.T) {
	for _, c := range []struct{ name, format, text, message string }{
		{"a row without", CSV, "id,text\nx,a\n,b\nz,c\n", "record 2 (line 3) has no id, others have"},
		{"the first row without", CSV, "id,text\n,a\ny,b\n", "record 1 (line 2) has no id, others have"},
		{"a late id", CSV, "id,text\n,a\n,b\nz,c\n", "record 1 (line 2) has no id, others have"},
		{"blanks are none", TSV, "id\ttext\nx\ta\n  \tb\n", "record 2 (line 3) has no id, others have"},
		{"lines", JSONL, "{\"id\":1,\"text\":\"a\"}\n\n{\"text\":\"b\"}\n", "record 2 (line 3) has no id, others have"},
		{"null is none", JSON, "[{\"id\":\"x\",\"text\":\"a\"},\n{\"id\":null,\"text\":\"b\"}]", "record 2 (line 2) has no id, others have"},
		{"an empty one is none", JSON, `[{"id":"","text":"a"},{"id":"0","text":"b"}]`, "record 1 (line 1) has no id, others have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := all(t, c.format, c.text)
			bad(t, err, "bad_record", c.message)
		})
	}
	got, err := all(t, CSV, "id,text\n,a\n,b\n")
	require.NoError(t, err)
	require.Equal(t, []Record{{ID: "0", Text: "a"}, {ID: "1", Text: "b"}}, got)
}

func TestRowFaults(t *testing.T) {
	for text, message := range map[string]string{
		"a,b\n1,2\n1,2,3\n":         "record 2 (line 3) has 3 of the header's 2 columns",
		"a,b\n\"x\ny\",2\n1\n":      "record 2 (line 4) has 1 of the header's 2 columns",
		"a,b\n1,x\"y\n":             `record 1 (line 2): bare " in non-quoted-field at column 4 of line 2`,
		"a,b\n1,2\n3,\"x\ny\" z\n":  `record 2 (line 3): extraneous or missing " in quoted-field at column 2 of line 4`,
		"text,metadata.x\na,\"b\"c": `record 1 (line 2): extraneous or missing " in quoted-field at column 5 of line 2`,
	} {
		_, err := all(t, CSV, text)
		bad(t, err, "bad_record", message)
	}
}

func TestMade(t *testing.T) {
	s := Made(DOCX, Record{Text: "x", Note: &Note{Code: "c"}})
	require.True(t, s.Single())
	require.Zero(t, s.Count())
	require.Equal(t, MarkupMarkdown, s.Markup())
	require.Equal(t, MarkupPlain, Made(PDF, Record{}).Markup())
	var got []Record
	require.NoError(t, s.Each(func(r Record) error { got = append(got, r); return nil }))
	require.Equal(t, []Record{{Text: "x", Note: &Note{Code: "c"}}}, got)
	for format, binary := range map[string]bool{PDF: true, DOCX: true, XML: false, Text: false} {
		require.Equal(t, binary, Binary(format))
		require.True(t, Single(format))
	}
}
