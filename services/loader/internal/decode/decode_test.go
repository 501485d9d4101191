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
		name   string
		raw    string
		markup bool
		want   string
	}{
		{"ascii", "plain", false, "plain"},
		{"empty", "", false, ""},
		{"utf-8", "Zoë 王芳 👩‍🔬", false, "Zoë 王芳 👩‍🔬"},
		{"utf-8 mark stays for the normaliser", "\uFEFFa", false, "\uFEFFa"},
		{"utf-16le", "\xff\xfe\x1c\xc1A\x00", false, "\uFEFF서A"},
		{"utf-16be", "\xfe\xff\xc1\x1c\x00A", false, "\uFEFF서A"},
		{"utf-16 pair", "\xff\xfe\x3d\xd8\x00\xde", false, "\uFEFF😀"},
		{"controls are kept", "a\x01\x0c\x1b\x7fb", false, "a\x01\x0c\x1b\x7fb"},
		{"page in utf-8 that says latin-1", `<meta charset="iso-8859-1">Größe`, true, `<meta charset="iso-8859-1">Größe`},
		{"page in latin-1", "<meta charset=iso-8859-1>Gr\xf6\xdfe", true, "<meta charset=iso-8859-1>Größe"},
		{"page by http-equiv", "<meta http-equiv=Content-Type content=\"text/html; charset=windows-1251\">\xcf\xf0", true,
			"<meta http-equiv=Content-Type content=\"text/html; charset=windows-1251\">Пр"},
		{"page by xml declaration", "<?xml version='1.0' encoding='ISO-8859-1'?><p>\xe9", true, "<?xml version='1.0' encoding='ISO-8859-1'?><p>é"},
		{"page in iso-2022-jp", "<meta charset=iso-2022-jp>\x1b$B$\"\x1b(B", true, "<meta charset=iso-2022-jp>あ"},
		{"page in shift_jis", "<meta charset=shift_jis>\x82\xa0", true, "<meta charset=shift_jis>あ"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Text([]byte(c.raw), c.markup)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestTextRefuses(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		markup    bool
		message   string
	}{
		{"latin-1 text", "Caf\xe9", false, "not UTF-8 (first broken byte at 3) and no encoding is declared: save it as UTF-8"},
		{"a declaration outside a page", "<meta charset=iso-8859-1>\xe9", false, "not UTF-8 (first broken byte at 25) and no encoding is declared: save it as UTF-8"},
		{"page without a declaration", "<p>\xe9", true, "not UTF-8 (first broken byte at 3) and no encoding is declared: save it as UTF-8"},
		{"page of an unknown encoding", "<meta charset=klingon>\xe9", true, `the declared encoding "klingon" is not known`},
		{"page that lies", "<meta charset=utf-8>\xe9", true, `the declared encoding is "utf-8", but the bytes are not (first broken byte at 20)`},
		{"page with broken bytes", "<meta charset=shift_jis>\x82", true, `the declared encoding is "shift_jis", but some bytes have no meaning in it`},
		{"nul", "a\x00b", false, "a NUL stands at byte 1: this is no text"},
		{"odd utf-16", "\xff\xfea", false, "UTF-16 by its byte order mark, but of an odd number of bytes (3)"},
		{"half a pair", "\xff\xfe\x3d\xd8a\x00", false, "UTF-16 by its byte order mark, but with half a character at byte 2"},
		{"half a pair at the end", "\xff\xfe\x3d\xd8", false, "UTF-16 by its byte order mark, but with half a character at byte 2"},
		{"utf-32 is not guessed", "\xff\xfe\x00\x00a\x00\x00\x00", false, "a NUL stands at byte 3: this is no text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Text([]byte(c.raw), c.markup)
			require.EqualError(t, err, c.message)
			var f *fault.Error
			require.True(t, errors.As(err, &f))
			require.Equal(t, fault.Document, f.Class)
			require.Equal(t, "bad_encoding", f.Code)
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("Caf\xe9"), false)
	f.Add([]byte("<?xml encoding='x"), true)
	f.Add([]byte("<meta charset=gb18030>\x81\x30\x81\x30\xff"), true)
	f.Add([]byte("<meta charset=iso-2022-jp>\x1b$B\x00"), true)
	f.Add([]byte("\xff\xfe\x00\xd8"), false)
	f.Fuzz(func(t *testing.T, raw []byte, markup bool) {
		text, err := Text(raw, markup)
		if err == nil && !utf8.ValidString(text) {
			t.Fatalf("%q became the broken text %q", raw, text)
		}
		if err != nil && fault.Of(err).Class != fault.Document {
			t.Fatalf("%q: %v is no document fault", raw, err)
		}
		if !markup && utf8.Valid(raw) && err == nil && text != string(raw) {
			t.Fatalf("%q changed into %q", raw, text)
		}
	})
}
