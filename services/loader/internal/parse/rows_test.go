package parse

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLineEndsOfTables(t *testing.T) {
	ada := []Record{{ID: "1", Text: "Ada worked for Acme Ltd."}, {ID: "2", Text: "x"}}
	two := []Record{{ID: "1", Text: "a\nb"}, {ID: "2", Text: "x"}}
	for _, c := range []struct {
		name, text string
		want       []Record
		places     []Place
	}{
		{"CR", "id,text\r1,Ada worked for Acme Ltd.\r2,x\r", ada, []Place{{1, 2}, {2, 3}}},
		{"CR, the last one missing", "id,text\r1,Ada worked for Acme Ltd.\r2,x", ada, []Place{{1, 2}, {2, 3}}},
		{"CR, CRLF and LF", "id,text\r1,Ada worked for Acme Ltd.\r\n2,x\n", ada, []Place{{1, 2}, {2, 3}}},
		{"LF, then CR", "id,text\n1,Ada worked for Acme Ltd.\r2,x\r\n", ada, []Place{{1, 2}, {2, 3}}},
		{"CR twice", "id,text\r\r1,Ada worked for Acme Ltd.\r\r\n2,x\r", ada, []Place{{1, 3}, {2, 5}}},
		{"a mark", "\uFEFFid,text\r1,Ada worked for Acme Ltd.\r2,x\r", ada, []Place{{1, 2}, {2, 3}}},
		{"a mark, then CR", "\uFEFF\rid,text\r1,Ada worked for Acme Ltd.\r2,x\r", ada, []Place{{1, 3}, {2, 4}}},
		{"CR in quotes", "id,text\r1,\"a\rb\"\r2,x\r", two, []Place{{1, 2}, {2, 4}}},
		{"CR in quotes, CRLF around", "id,text\r\n1,\"a\rb\"\r\n2,x\r\n", two, []Place{{1, 2}, {2, 4}}},
		{"CRLF in quotes, CR around", "id,text\r1,\"a\r\nb\"\r2,x\r", two, []Place{{1, 2}, {2, 4}}},
		{"quotes in the header", "\"id\",\"text\"\r\"1\",\"a\rb\"\r\"2\",\"x\"", two, []Place{{1, 2}, {2, 4}}},
	} {
		for format, text := range map[string]string{CSV: c.text, TSV: strings.ReplaceAll(c.text, ",", "\t")} {
			t.Run(c.name+" "+format, func(t *testing.T) {
				got, err := all(t, format, text)
				require.NoError(t, err)
				require.Equal(t, c.want, got)
				s, err := New(format, text)
				require.NoError(t, err)
				require.Equal(t, len(c.want), s.Count())
				var places []Place
				require.NoError(t, s.Each(func(r Record) error { places = append(places, r.At); return nil }))
				require.Equal(t, c.places, places)
				require.Nil(t, s.Unread())
			})
		}
	}
	got, err := all(t, CSV, "\r\nid;text\r1;a,b\r")
	require.NoError(t, err)
	require.Equal(t, []Record{{ID: "1", Text: "a,b"}}, got, "the separator is told by the header, not by the blank line before it")
	_, err = all(t, CSV, "id,text\r1,a\r2\r")
	bad(t, err, "bad_record", "record 2 (line 3) has 1 of the header's 2 columns")
}

func TestUnread(t *testing.T) {
	for _, c := range []struct{ format, text, want string }{
		{CSV, "id,text\n", "the table has a header (line 1, columns: 2) and no rows: none of its 8 bytes became a document"},
		{TSV, "id\ttext", "the table has a header (line 1, columns: 2) and no rows: none of its 7 bytes became a document"},
		{CSV, "1,Ada worked for Acme Ltd.", "the table has a header (line 1, columns: 2) and no rows: none of its 26 bytes became a document"},
		{CSV, "id,text\u20281,Ada", "the table has a header (line 1, columns: 3) and no rows: none of its 15 bytes became a document"},
		{CSV, "id,\"text\n1,Ada\n\"\n", "the table has a header (line 1, columns: 2) and no rows: none of its 17 bytes became a document"},
		{CSV, "sep=;\nid;text\n", "the table has a header (line 2, columns: 2) and no rows: none of its 8 bytes became a document"},
	} {
		s, err := New(c.format, c.text)
		require.NoError(t, err)
		require.NoError(t, s.Each(func(Record) error { t.Fatal("a record"); return nil }))
		require.Equal(t, &Note{Code: "no_records", Message: c.want}, s.Unread())
	}
	for format, text := range map[string]string{CSV: "\uFEFF\r\n", TSV: " \n", JSON: "[]", JSONL: "\n", Text: "x"} {
		s, err := New(format, text)
		require.NoError(t, err)
		require.Nil(t, s.Unread(), format)
	}
}

func TestDeclaredSeparator(t *testing.T) {
	want := []Record{{ID: "1", Text: "a,b"}}
	for _, c := range []struct{ name, format, text string }{
		{"semicolon", CSV, "sep=;\nid;text\n1;a,b\n"},
		{"mark, CRLF", CSV, "\uFEFFsep=;\r\nid;text\r\n1;a,b\r\n"},
		{"CR", CSV, "sep=;\rid;text\r1;a,b\r"},
		{"a header that would tell otherwise", CSV, "sep=;\nid;text;a,b\n1;\"a,b\";\n"},
		{"comma", CSV, "sep=,\nid,text\n1,\"a,b\"\n"},
		{"tab", CSV, "SEP=\t\nid\ttext\n1\t\"a,b\"\n"},
		{"bar", CSV, "sep=|\nid|text\n1|a,b\n"},
		{"two bytes", CSV, "sep=§\nid§text\n1§a,b\n"},
		{"quoted", CSV, "\"sep=;\"\n\nid;text\n1;a,b\n"},
		{"tab in a TSV", TSV, "sep=\t\nid\ttext\n1\ta,b\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := all(t, c.format, c.text)
			require.NoError(t, err)
			require.Equal(t, want, got)
			s, err := New(c.format, c.text)
			require.NoError(t, err)
			require.Equal(t, 1, s.Count())
		})
	}
	for text, want := range map[string][]Record{ // headers of one column
		"sep=\nx\n":   {{ID: "0", Text: "sep=: x"}},
		"sep=ab\nx\n": {{ID: "0", Text: "sep=ab: x"}},
		"sep=a\nx\n":  {{ID: "0", Text: "sep=a: x"}},
		"x\nsep=;\n":  {{ID: "0", Text: "x: sep=;"}},
	} {
		got, err := all(t, CSV, text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := all(t, CSV, "sep=;\nid;text\n1;a\n2\n")
	bad(t, err, "bad_record", "record 2 (line 4) has 1 of the header's 2 columns")
	_, err = all(t, CSV, "sep=;\nid;text\n1;x\"y\n")
	bad(t, err, "bad_record", `record 1 (line 3): bare " in non-quoted-field at column 4 of line 3`)
	_, err = all(t, CSV, "sep=§\n"+strings.Repeat("§", MaxFields)+"\n")
	bad(t, err, "too_many_fields", "a row has more than 4096 columns")
}

func TestQuotesInTSV(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string // the texts
	}{
		{"inside", "id\ttext\n1\tAda said \"no\" twice\n2\t6\" pipe\n", []string{`Ada said "no" twice`, `6" pipe`}},
		{"at the beginning", "id\ttext\n1\t\"No\" said Ada\n2\tx\n", []string{`"No" said Ada`, "x"}},
		{"at the beginning only", "id\ttext\n1\t\"No\n2\tx\n", []string{`"No`, "x"}},
		{"alone", "id\ttext\n1\t\"\n2\tx", []string{`"`, "x"}},
		{"one opens, a later row closes", "id\ttext\n1\t\"Ada said\n2\tshe left\"\n", []string{`"Ada said`, `she left"`}},
		{"one opens, the next row's first cell closes", "text\tid\n\"Ada\t1\nx\"\t2\n", []string{`"Ada`, `x"`}},
		{"a spreadsheet's quote", "id\ttext\n1\t\"say \"\"hi\"\"\"\n2\tx\n", []string{`say "hi"`, "x"}},
		{"a spreadsheet's tab", "id\ttext\n1\t\"a\tb\"\n2\tx\n", []string{"a\tb", "x"}},
		{"a spreadsheet's line break", "id\ttext\n1\t\"Ada\nworked\n\nhere\"\n2\tx\n", []string{"Ada\nworked\n\nhere", "x"}},
		{"line breaks in two cells", "id\ttext\ttitle\n1\t\"a\nb\"\t\"c\nd\"\n2\tx\ty\n", []string{"a\nb", "x"}},
		{"a line break in the only column", "text\n\"Ada\nworked\"\nx\n", []string{"Ada\nworked", "x"}},
		{"a line break in the header", "id\ttext\t\"a\nb\"\tc\n1\tx\t2\t3\n", []string{"x"}},
		{"a quote in the header", "id\ttext\t6\" pipe\n1\tx\t2\n", []string{"x"}},
		{"quotes that only look like a spreadsheet's", "id\ttext\ta\n1\t\"x\ty\"\n", []string{`"x`}},
		{"empty cells", "id\ttext\ttitle\n1\t\"\"\t\n2\tx\t\"\"", []string{"", "x"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := all(t, TSV, c.text)
			require.NoError(t, err)
			var texts []string
			for i, r := range got {
				if strings.Contains(c.text, "id") {
					require.Equal(t, string(rune('1'+i)), r.ID)
				}
				texts = append(texts, r.Text)
			}
			require.Equal(t, c.want, texts)
			s, err := New(TSV, c.text)
			require.NoError(t, err)
			require.Equal(t, len(c.want), s.Count())
		})
	}
	s, err := New(TSV, "a\tb\n1\t\"x\ny\"\n\n2\tz\n")
	require.NoError(t, err)
	var places []Place
	require.NoError(t, s.Each(func(r Record) error { places = append(places, r.At); return nil }))
	require.Equal(t, []Place{{1, 2}, {2, 5}}, places)

	_, err = all(t, TSV, "a\tb\n1\t\"x\ny\"\n3\n")
	bad(t, err, "bad_record", "record 2 (line 4) has 1 of the header's 2 columns")
	_, err = all(t, TSV, "a\tb\n1\t2\t3\n")
	bad(t, err, "bad_record", "record 1 (line 2) has 3 of the header's 2 columns")
	_, err = all(t, TSV, strings.Repeat("\t", MaxFields)+"\n")
	bad(t, err, "too_many_fields", "a row has more than 4096 columns")
	_, err = all(t, TSV, "a\n"+strings.Repeat("\t", MaxFields)+"\n")
	bad(t, err, "too_many_fields", "a row has more than 4096 columns")
}

// TestTSVIsLinear: looking for the quote that closes a cell reads no byte of a table often.
func TestTSVIsLinear(t *testing.T) {
	start := time.Now()
	for _, piece := range []string{"\"", "\"\"", "\"\"\"", "\"\n", "\"a\t", "\"a\tb\"\t", "a\t\"b\nc\"\t", "\"\"\"\t", "\"\n\"\"", "x\t\"\n"} {
		for _, header := range []string{"a\tb\n", strings.Repeat("a\t", 4000) + "b\n"} {
			s, err := New(TSV, header+strings.Repeat(piece, 4<<20/len(piece)))
			require.NoError(t, err)
			s.Count()
		}
	}
	require.Less(t, time.Since(start), time.Minute)
}
