package parse

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fault"
)

const limit = 1 << 20

// docxFile writes parts, name and content in turn, as a file.
func docxFile(t testing.TB, parts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		w, err := z.Create(parts[i])
		require.NoError(t, err)
		_, err = w.Write([]byte(parts[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

// wordDoc is a main part with that body.
func wordDoc(body string) string {
	return `<?xml version="1.0" encoding="UTF-8" standalone="yes"?><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:mc="m"><w:body>` + body +
		`<w:sectPr><w:p><w:r><w:t>no text</w:t></w:r></w:p></w:sectPr></w:body></w:document>`
}

// para is a paragraph of a style.
func para(style, text string) string {
	return `<w:p><w:pPr><w:pStyle w:val="` + style + `"/></w:pPr><w:r><w:t xml:space="preserve">` + text + `</w:t></w:r></w:p>`
}

func item(list, level, text string) string {
	return `<w:p><w:pPr><w:numPr><w:ilvl w:val="` + level + `"/><w:numId w:val="` + list + `"/></w:numPr></w:pPr><w:r><w:t>` + text + `</w:t></w:r></w:p>`
}

const (
	wordStyles = `<w:styles xmlns:w="w"><w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
<w:style w:type="paragraph" w:styleId="Own"><w:name w:val="My head"/><w:basedOn w:val="H2"/></w:style>
<w:style w:type="paragraph" w:styleId="H2"><w:name w:val="Second"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>
<w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style>
<w:style w:type="paragraph" w:styleId="A"><w:name w:val="a"/><w:basedOn w:val="B"/></w:style><w:style w:type="paragraph" w:styleId="B"><w:name w:val="b"/><w:basedOn w:val="A"/></w:style>
<w:style w:type="paragraph" w:styleId="Bullet"><w:name w:val="List Bullet"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>
<w:style w:type="character" w:styleId="Strong"><w:name w:val="heading 1"/></w:style></w:styles>`
	wordNumbers = `<w:numbering xmlns:w="w"><w:abstractNum w:abstractNumId="5"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>
<w:abstractNum w:abstractNumId="6"><w:lvl w:ilvl="0"><w:numFmt w:val="decimal"/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="lowerLetter"/></w:lvl></w:abstractNum>
<w:num w:numId="1"><w:abstractNumId w:val="5"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="6"/></w:num><w:num w:numId="3"><w:abstractNumId w:val="6"/></w:num></w:numbering>`
)

func readWord(t testing.TB, body string) Record {
	t.Helper()
	r, err := ReadDOCX(docxFile(t, "word/document.xml", wordDoc(body), "word/styles.xml", wordStyles, "word/numbering.xml", wordNumbers), limit)
	require.NoError(t, err)
	return r
}

func TestDOCX(t *testing.T) {
	cell := func(props, text string) string {
		return "<w:tc><w:tcPr>" + props + "</w:tcPr>" + para("", text) + "</w:tc>"
	}
	for _, c := range []struct{ name, in, want, title string }{
		{"paragraphs of runs", `<w:p><w:r><w:t xml:space="preserve">Ada </w:t></w:r><w:hyperlink><w:r><w:rPr><w:b/></w:rPr><w:t>Love</w:t></w:r></w:hyperlink><w:r><w:t>lace &amp; Co</w:t></w:r></w:p><w:p/><w:p><w:r><w:t>Next.</w:t></w:r></w:p>`,
			"Ada Lovelace & Co\n\nNext.", ""},
		{"headings", para("Titel", "The title") + para("berschrift1", "One") + para("", "text") + para("Own", "Two") + para("Heading3", "Three") + para("A", "round") +
			`<w:p><w:pPr><w:outlineLvl w:val="8"/></w:pPr><w:r><w:t>Nine</w:t></w:r></w:p><w:p><w:pPr><w:outlineLvl w:val="9"/></w:pPr><w:r><w:t>Body</w:t></w:r></w:p>`,
			"# The title\n\n# One\n\ntext\n\n## Two\n\n### Three\n\nround\n\n###### Nine\n\nBody", "The title"},
		{"lists", item("1", "0", "a") + item("1", "1", "b") + para("Bullet", "c") + para("", "between") + item("2", "0", "x") + item("2", "1", "y") + item("2", "1", "z") + item("2", "0", "w") + item("2", "1", "y") +
			item("3", "0", "new") + item("0", "0", "none") + item("9", "0", "unknown"),
			"- a\n  - b\n- c\n\nbetween\n\n1. x\n   1. y\n   2. z\n2. w\n   1. y\n1. new\n\nnone\n\n- unknown", ""},
		{"a style's list may be left", `<w:p><w:pPr><w:pStyle w:val="Bullet"/><w:numPr><w:numId w:val="0"/></w:numPr></w:pPr><w:r><w:t>plain</w:t></w:r></w:p>`, "plain", ""},
		{"tables", `<w:tbl><w:tblPr><w:tblLook w:firstRow="1"/></w:tblPr><w:tr>` + cell("", "Name") + cell("", "Role") + `</w:tr><w:tr>` + cell("", "Ann") + `<w:tc>` + para("", "CEO|") + para("", "CTO") + `</w:tc></w:tr></w:tbl>` +
			para("", "after") + `<w:tbl><w:tr>` + cell(`<w:gridSpan w:val="2"/>`, "wide") + `</w:tr><w:tr>` + cell(`<w:vMerge/>`, "") + cell("", "b") + `</w:tr></w:tbl>`,
			"| Name | Role |\n|---|---|\n| Ann | CEO\\| \\| CTO |\n\nafter\n\n|  |  |\n|---|---|\n| wide |  |\n|  | b |", ""},
		{"header rows by their mark, look by its bits", `<w:tbl><w:tblPr><w:tblLook w:val="0480"/></w:tblPr><w:tr><w:trPr><w:tblHeader/></w:trPr>` + cell("", "H") + `</w:tr></w:tbl><w:p/><w:tbl><w:tblPr><w:tblLook w:val="04A0"/></w:tblPr><w:tr>` +
			cell("", "K") + `</w:tr></w:tbl><w:p/><w:tbl><w:tblPr><w:tblLook w:val="04A0" w:firstRow="0"/></w:tblPr><w:tr>` + cell("", "L") + `</w:tr></w:tbl>`, "| H |\n|---|\n\n| K |\n|---|\n\n|  |\n|---|\n| L |", ""},
		{"a table in a table", `<w:tbl><w:tr><w:tc>` + para("berschrift1", "a") + `<w:tbl><w:tr>` + cell("", "b") + cell("", "c") + `</w:tr></w:tbl><w:p/></w:tc>` + cell("", "d") + `</w:tr></w:tbl>`, "|  |  |\n|---|---|\n| a \\| b \\| c | d |", ""},
		{"changes: what was taken out goes, what was put in stays", `<w:p><w:del><w:r><w:delText>old</w:delText><w:t>x</w:t></w:r></w:del><w:ins><w:r><w:t>new</w:t></w:r></w:ins><w:moveFrom><w:r><w:t>y</w:t></w:r></w:moveFrom><w:moveTo><w:r><w:t> here</w:t></w:r></w:moveTo>` +
			`<w:r><w:rPr><w:del/><w:rPrChange><w:rPr><w:vanish/></w:rPr></w:rPrChange></w:rPr><w:t> too</w:t></w:r></w:p>`, "new here too", ""},
		{"hidden text", `<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>secret</w:t></w:r><w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t>seen</w:t></w:r></w:p>`, "seen", ""},
		{"fields", `<w:p><w:r><w:fldChar/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:t>7</w:t></w:r><w:fldSimple w:instr="X"><w:r><w:t> of 9</w:t></w:r></w:fldSimple></w:p>`, "7 of 9", ""},
		{"characters that are elements", `<w:p><w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr><w:r><w:tab/><w:t>a</w:t><w:tab/><w:t>b</w:t><w:noBreakHyphen/><w:t>c</w:t><w:br/><w:t>d</w:t><w:cr/><w:t>e</w:t></w:r></w:p>`, "a b-c\nd\ne", ""},
		{"a text box stands before its paragraph", `<w:p><w:r><w:t>Ada </w:t></w:r><w:r><mc:AlternateContent><mc:Choice><w:drawing><w:txbxContent>` + para("", "In the box.") + `</w:txbxContent></w:drawing></mc:Choice><mc:Fallback><w:pict><w:txbxContent>` +
			para("", "In the box.") + `</w:txbxContent></w:pict></mc:Fallback></mc:AlternateContent></w:r><w:r><w:t>worked.</w:t></w:r></w:p>` + para("", "End."), "In the box.\n\nAda worked.\n\nEnd.", ""},
		{"content controls", `<w:sdt><w:sdtPr><w:alias w:val="x"/></w:sdtPr><w:sdtContent>` + para("", "typed") + `</w:sdtContent></w:sdt><w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>` + para("", "Click here") + `</w:sdtContent></w:sdt>` + para("", "on"), "typed\n\non", ""},
		{"ruby", `<w:p><w:r><w:ruby><w:rt><w:r><w:t>とうきょう</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>東京</w:t></w:r></w:rubyBase></w:ruby></w:r></w:p>`, "東京", ""},
		{"text outside paragraphs is none", `<w:t>x</w:t><w:r><w:t>y</w:t></w:r>`, "", ""},
		{"empty", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, Record{Text: c.want, Title: c.title}, readWord(t, c.in))
		})
	}
}

func TestDOCXParts(t *testing.T) {
	core := `<cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:dcterms="t"><dc:title> The  Title </dc:title><dc:creator>Ada</dc:creator><dcterms:created>2024-05-01T10:00:00Z</dcterms:created></cp:coreProperties>`
	notes := `<w:footnotes xmlns:w="w"><w:footnote w:type="separator"><w:p><w:r><w:t>---</w:t></w:r></w:p></w:footnote><w:footnote w:id="2">` + para("", "A footnote.") + `</w:footnote></w:footnotes>`
	data := docxFile(t, "_rels/.rels", `<Relationships><Relationship Type="http://x/officeDocument" Target="/main/doc.xml"/></Relationships>`,
		"main/doc.xml", wordDoc(para("Heading2", "Head")+para("", "Text.")), "main/footnotes.xml", notes, "main/endnotes.xml", strings.ReplaceAll(notes, "footnote", "endnote"),
		"main/header1.xml", wordDoc(para("", "header")), "word/vbaProject.bin", "\x00macro", "docProps/core.xml", core)
	r, err := ReadDOCX(data, limit)
	require.NoError(t, err)
	require.Equal(t, Record{Text: "## Head\n\nText.\n\nA footnote.\n\nA endnote.", Title: "The Title", PublishedAt: "2024-05-01T10:00:00Z"}, r)

	r, err = ReadDOCX(docxFile(t, "word/document.xml", wordDoc(para("Heading1", "H")), "docProps/core.xml", `<c><title/><created>soon</created></c>`), limit)
	require.NoError(t, err)
	require.Equal(t, Record{Text: "# H", Title: "H"}, r)
	r, err = ReadDOCX(docxFile(t, "word/document.xml", wordDoc(para("", "x")), "docProps/core.xml", `<c><created>2013-12-23T23:15:00Z</created></c>`), limit)
	require.NoError(t, err)
	require.Equal(t, Record{Text: "x"}, r, "the day of a template says nothing")
}

func TestDOCXRefuses(t *testing.T) {
	whole := docxFile(t, "word/document.xml", wordDoc(para("", "x")))
	lying := slices.Clone(whole) // says that its part unpacks to 1 GiB
	at := bytes.LastIndex(lying, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(lying[at+24:], 1<<30)
	torn := slices.Clone(whole)
	torn[60] ^= 0xFF
	many := make([]string, 0, 2*maxParts+4)
	for range maxParts + 1 {
		many = append(many, "x", "")
	}
	bomb := strings.Repeat(para("", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), 40<<10)
	for _, c := range []struct {
		name          string
		data          []byte
		code, message string
	}{
		{"no archive", []byte("hello"), "bad_docx", "the archive is damaged: zip: not a valid zip file"},
		{"cut", whole[:len(whole)-10], "bad_docx", "the archive is damaged: zip: not a valid zip file"},
		{"old or locked", []byte("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"), "bad_docx", "an old Word file, or one with a password: save it as DOCX without one"},
		{"another archive", docxFile(t, "xl/workbook.xml", "<a/>"), "unsupported_format", "a ZIP archive that is no DOCX document: it has no word/document.xml"},
		{"too many parts", docxFile(t, many...), "bad_docx", "the archive has 10001 parts: at most 10000"},
		{"packed beyond reason", docxFile(t, "word/document.xml", wordDoc(bomb)), "zip_bomb", " to 1: at most 200 to 1 is read"},
		{"says it is too large", lying, "zip_bomb", " to 1: at most 200 to 1 is read"},
		{"a damaged part", torn, "bad_docx", "word/document.xml is damaged: "},
		{"a document type", docxFile(t, "word/document.xml", `<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>`), "xml_entities", "word/document.xml has a document type: it is not read"},
		{"a document type in the styles", docxFile(t, "word/document.xml", wordDoc(""), "word/styles.xml", `<!DOCTYPE a><a/>`), "xml_entities", "word/styles.xml has a document type: it is not read"},
		{"broken markup", docxFile(t, "word/document.xml", "<w:document><w:p>"), "bad_docx", "word/document.xml is damaged: XML syntax error on line 1: unexpected EOF"},
		{"too deep", docxFile(t, "word/document.xml", strings.Repeat("<w:r>", 300)), "too_deep", "word/document.xml: elements are nested more than 256 deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadDOCX(c.data, limit)
			require.ErrorContains(t, err, c.message)
			require.Equal(t, fault.Document, fault.Of(err).Class)
			require.Equal(t, c.code, fault.Of(err).Code)
		})
	}
}

func TestDOCXIsBounded(t *testing.T) {
	rng := rand.New(rand.NewSource(7))
	words := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(string(rune('a'+rng.Intn(26))) + string(rune('a'+rng.Intn(26))) + " ")
		}
		return b.String()
	}
	one := docxFile(t, "word/document.xml", wordDoc(para("", words(100))+strings.Repeat("<w:p><w:r/></w:p>", 2000)))
	_, err := ReadDOCX(one, 4<<10)
	bad(t, err, "zip_bomb", "its parts have more than 32768 bytes unpacked")
	_, err = ReadDOCX(docxFile(t, "word/document.xml", wordDoc(strings.Repeat(para("", words(400)), 5))), 4<<10)
	bad(t, err, "too_large", "the document has more than 4096 bytes of text")
	// Parts that are small alone are too much together.
	parts := []string{"word/document.xml", wordDoc(para("", "x"))}
	for _, name := range []string{"styles", "numbering", "footnotes"} {
		parts = append(parts, "word/"+name+".xml", "<a>"+words(5000)+"</a>")
	}
	_, err = ReadDOCX(docxFile(t, parts...), 4<<10)
	bad(t, err, "zip_bomb", "its parts have more than 32768 bytes unpacked")
	// What a part holds beyond what it says is not read.
	lying := docxFile(t, "word/document.xml", wordDoc(strings.Repeat(para("", words(400)), 50)))
	at := bytes.LastIndex(lying, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(lying[at+24:], 1000)
	_, err = ReadDOCX(lying, limit)
	require.Equal(t, "bad_docx", fault.Of(err).Code, "%v", err)
}

func TestDOCXIsLinear(t *testing.T) {
	for _, piece := range []string{"<w:p/>", "<w:tbl><w:tr><w:tc/></w:tr></w:tbl>", item("1", "8", "x"), "<w:p><w:r><w:t>x</w:t></w:r></w:p>", "<w:sdt><w:sdtContent/></w:sdt>", "<w:br/>"} {
		n := (1 << 18) / len(piece)
		var noise strings.Builder // or it is a bomb
		rng := rand.New(rand.NewSource(1))
		for range n {
			noise.WriteString(piece)
			if rng.Intn(8) == 0 {
				noise.WriteString("<!--" + string(rune('a'+rng.Intn(26))) + string(rune('a'+rng.Intn(26))) + string(rune('a'+rng.Intn(26))) + "-->")
			}
		}
		r, err := ReadDOCX(docxFile(t, "word/document.xml", wordDoc(noise.String())), 8<<20)
		require.NoError(t, err, piece)
		require.LessOrEqual(t, len(r.Text), 2<<20, piece)
	}
}

// TestDOCXDamaged reads files in which bytes were changed, outside and inside the packing.
func TestDOCXDamaged(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	body := para("berschrift1", "H") + item("2", "1", "x") + `<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl><w:p><w:r><w:txbxContent>` + para("", "y") + `</w:txbxContent></w:r></w:p>`
	for range 500 {
		inside := []byte(body)
		for range rng.Intn(3) {
			at, end := rng.Intn(len(inside)), 0
			end = min(len(inside), at+1+rng.Intn(30))
			if rng.Intn(2) == 0 {
				inside = slices.Delete(inside, at, end)
			} else {
				inside = slices.Insert(inside, at, slices.Clone(inside[at:end])...)
			}
			if len(inside) == 0 {
				inside = []byte{' '}
			}
		}
		data := docxFile(t, "word/document.xml", wordDoc(string(inside)), "word/styles.xml", wordStyles, "word/numbering.xml", wordNumbers)
		for range rng.Intn(3) {
			data[rng.Intn(len(data))] ^= byte(1 << rng.Intn(8))
		}
		if _, err := ReadDOCX(data, limit); err != nil {
			require.Equal(t, fault.Document, fault.Of(err).Class, "%v", err)
		}
	}
}

func FuzzDOCX(f *testing.F) {
	f.Add(para("Heading1", "H") + item("2", "0", "x"))
	f.Add(`<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="9"/></w:tcPr></w:tc></w:tr></w:tbl>`)
	f.Add(`<w:p><w:r><w:t>a</w:t><w:txbxContent><w:p><w:r><w:t>b</w:t></w:r></w:p></w:txbxContent></w:r></w:p>`)
	f.Add(`<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent/></w:sdt><w:footnote w:type="x"/>`)
	f.Fuzz(func(t *testing.T, inside string) {
		for _, data := range [][]byte{[]byte(inside), docxFile(t, "word/document.xml", wordDoc(inside), "word/styles.xml", inside, "word/numbering.xml", inside, "docProps/core.xml", inside),
			docxFile(t, "word/document.xml", wordDoc(inside))} {
			r, err := ReadDOCX(data, limit)
			if err != nil {
				require.Equal(t, fault.Document, fault.Of(err).Class, "%v", err)
				continue
			}
			require.LessOrEqual(t, len(r.Text), 16*len(inside)+1024)
		}
	})
}

func TestDOCXHasOneRoot(t *testing.T) {
	_, err := ReadDOCX(docxFile(t, "word/document.xml", wordDoc(para("", "Acme"))+wordDoc(para("", "Bob"))), limit)
	bad(t, err, "bad_docx", "word/document.xml is damaged: it has a second root element")
}
