package decode

import (
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fault"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		name  string
		raw   string
		where Declares
		want  string
	}{
		{"ascii", "plain", Nowhere, "plain"},
		{"empty", "", Nowhere, ""},
		{"utf-8", "Zoë 王芳 👩‍🔬", Nowhere, "Zoë 王芳 👩‍🔬"},
		{"utf-8 mark stays for the normaliser", "\uFEFFa", Nowhere, "\uFEFFa"},
		{"utf-16le", "\xff\xfe\x1c\xc1A\x00", Nowhere, "\uFEFF서A"},
		{"utf-16be", "\xfe\xff\xc1\x1c\x00A", Nowhere, "\uFEFF서A"},
		{"utf-16 pair", "\xff\xfe\x3d\xd8\x00\xde", Nowhere, "\uFEFF😀"},
		{"controls are kept", "a\x01\x0c\x1b\x7fb", Nowhere, "a\x01\x0c\x1b\x7fb"},
		{"page in utf-8 that says latin-1", `<meta charset="iso-8859-1">Größe`, InHTML, `<meta charset="iso-8859-1">Größe`},
		{"page in latin-1", "<meta charset=iso-8859-1>Gr\xf6\xdfe", InHTML, "<meta charset=iso-8859-1>Größe"},
		{"page by http-equiv", "<meta http-equiv=Content-Type content=\"text/html; charset=windows-1251\">\xcf\xf0", InHTML,
			"<meta http-equiv=Content-Type content=\"text/html; charset=windows-1251\">Пр"},
		{"page by xml declaration", "<?xml version='1.0' encoding='ISO-8859-1'?><p>\xe9", InHTML, "<?xml version='1.0' encoding='ISO-8859-1'?><p>é"},
		{"page in iso-2022-jp", "<meta charset=iso-2022-jp>\x1b$B$\"\x1b(B", InHTML, "<meta charset=iso-2022-jp>あ"},
		{"page in shift_jis", "<meta charset=shift_jis>\x82\xa0", InHTML, "<meta charset=shift_jis>あ"},
		{"page in windows-1252", "<meta charset=windows-1252>\x93\xc9\x94 \x80", InHTML, "<meta charset=windows-1252>“É” €"},
		{"page in latin-1 means windows-1252, as in every browser", "<meta charset=latin1>\x96", InHTML, "<meta charset=latin1>–"},
		{"page in iso-8859-2", "<meta charset=ISO-8859-2>\xb1\xea", InHTML, "<meta charset=ISO-8859-2>ąę"},
		{"page in iso-8859-5", "<meta charset=iso-8859-5>\xbf\xe0", InHTML, "<meta charset=iso-8859-5>Пр"},
		{"page in iso-8859-15", "<meta charset=iso-8859-15>\xa4", InHTML, "<meta charset=iso-8859-15>€"},
		{"page in koi8-r", "<meta charset=koi8-r>\xf0\xd2", InHTML, "<meta charset=koi8-r>Пр"},
		{"page in euc-kr", "<meta charset='euc-kr'>\xb0\xa1", InHTML, "<meta charset='euc-kr'>가"},
		{"page in euc-jp", "<meta charset=euc-jp>\xa4\xa2", InHTML, "<meta charset=euc-jp>あ"},
		{"page in gb18030", "<meta charset=gb18030>\xcd\xf5\x95\x32\x82\x36", InHTML, "<meta charset=gb18030>王𠀀"},
		{"page in big5", "<meta charset=big5>\xa4\xa4", InHTML, "<meta charset=big5>中"},
		{"document in windows-1252", "<?xml version='1.0' encoding=\"windows-1252\"?><p>\x96", InXML, "<?xml version='1.0' encoding=\"windows-1252\"?><p>–"},
		{"utf-8 mark before a declaration", "\uFEFF<?xml version='1.0' encoding='x'?><p>é", InXML, "\uFEFF<?xml version='1.0' encoding='x'?><p>é"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Text([]byte(c.raw), c.where)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestTextRefuses(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		where     Declares
		message   string
	}{
		{"latin-1 text", "Caf\xe9", Nowhere, "not UTF-8 (first broken byte at 3) and no encoding is declared: save it as UTF-8"},
		{"a declaration outside a page", "<meta charset=iso-8859-1>\xe9", Nowhere, "not UTF-8 (first broken byte at 25) and no encoding is declared: save it as UTF-8"},
		{"page without a declaration", "<p>\xe9", InHTML, "not UTF-8 (first broken byte at 3) and no encoding is declared: save it as UTF-8"},
		{"page of an unknown encoding", "<meta charset=klingon>\xe9", InHTML, `the declared encoding "klingon" is not known`},
		{"page that lies", "<meta charset=utf-8>\xe9", InHTML, `the declared encoding is "utf-8", but the bytes are not (first broken byte at 20)`},
		{"page with broken bytes", "<meta charset=shift_jis>\x82", InHTML, `the declared encoding is "shift_jis", but some bytes have no meaning in it`},
		{"a meta element in an XML document", "<?xml version='1.0'?><meta charset='iso-8859-1'/>\xe9", InXML, "not UTF-8 (first broken byte at 49) and no encoding is declared: save it as UTF-8"},
		{"a declaration in a table", "<?xml encoding='iso-8859-1'?>,\xe9", Nowhere, "not UTF-8 (first broken byte at 30) and no encoding is declared: save it as UTF-8"},
		{"a utf-8 mark before other bytes", "\uFEFFCaf\xe9", Nowhere, "not UTF-8 (first broken byte at 6) and no encoding is declared: save it as UTF-8"},
		{"nul in a page", "<p>a\x00b", InHTML, "a NUL stands at byte 4: this is no text"},
		{"nul in utf-16", "\xff\xfea\x00\x00\x00", Nowhere, "a NUL stands at byte 4: this is no text"},
		{"nul", "a\x00b", Nowhere, "a NUL stands at byte 1: this is no text"},
		{"odd utf-16", "\xff\xfea", Nowhere, "UTF-16 by its byte order mark, but of an odd number of bytes (3)"},
		{"half a pair", "\xff\xfe\x3d\xd8a\x00", Nowhere, "UTF-16 by its byte order mark, but with half a character at byte 2"},
		{"half a pair at the end", "\xff\xfe\x3d\xd8", Nowhere, "UTF-16 by its byte order mark, but with half a character at byte 2"},
		{"utf-32 is not guessed", "\xff\xfe\x00\x00a\x00\x00\x00", Nowhere, "a NUL stands at byte 3: this is no text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Text([]byte(c.raw), c.where)
			require.EqualError(t, err, c.message)
			var f *fault.Error
			require.True(t, errors.As(err, &f))
			require.Equal(t, fault.Document, f.Class)
			require.Equal(t, "bad_encoding", f.Code)
		})
	}
}

func TestEscapes(t *testing.T) {
	for _, c := range []struct{ json, escapes, halves string }{
		{`{"a":"\u0000"}`, `a NUL stands at byte 6, as \u0000: this is no text`, ""},
		{`{"a":"\u0000\uD800"}`, `a NUL stands at byte 6, as \u0000: this is no text`, `half a character stands at byte 12, as \uD800: its other half is missing`},
		{`"\udc00"`, `half a character stands at byte 1, as \udc00: its other half is missing`, `half a character stands at byte 1, as \udc00: its other half is missing`},
		{`"\ud83d\ude00\\u0000\\ud800\n\ufffd"`, "", ""},
		{`{}`, "", ""},
		{``, "", ""},
		{`\`, "", ""}, // not valid, and no reason to panic
	} {
		for _, got := range []struct {
			err  error
			want string
		}{{Escapes(c.json), c.escapes}, {Halves(c.json), c.halves}} {
			if got.want == "" {
				require.NoError(t, got.err, c.json)
				continue
			}
			require.EqualError(t, got.err, got.want)
			require.Equal(t, "bad_encoding", fault.Of(got.err).Code)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("Caf\xe9"), uint8(Nowhere))
	f.Add([]byte("<?xml encoding='x"), uint8(InXML))
	f.Add([]byte("<meta charset=gb18030>\x81\x30\x81\x30\xff"), uint8(InHTML))
	f.Add([]byte("<meta charset=iso-2022-jp>\x1b$B\x00"), uint8(InHTML))
	f.Add([]byte("\xff\xfe\x00\xd8"), uint8(Nowhere))
	f.Fuzz(func(t *testing.T, raw []byte, place uint8) {
		where := Declares(place % 3)
		text, err := Text(raw, where)
		if err == nil && !utf8.ValidString(text) {
			t.Fatalf("%q became the broken text %q", raw, text)
		}
		if err != nil && fault.Of(err).Class != fault.Document {
			t.Fatalf("%q: %v is no document fault", raw, err)
		}
		if where == Nowhere && utf8.Valid(raw) && err == nil && text != string(raw) {
			t.Fatalf("%q changed into %q", raw, text)
		}
	})
}
