package pdf

import (
	"bytes"
	"compress/flate"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Files are written by hand here, so that each test says exactly what stands in them.

const (
	helvetica = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
	// nameless shows glyphs by number and says of none which character it is.
	nameless = "<</Type/Font/Subtype/Type0/BaseFont/Foo/Encoding/Identity-H/DescendantFonts[<</Type/Font/Subtype/CIDFontType2/BaseFont/Foo" +
		"/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/DW 1000>>]>>"
)

// build writes objects 1, 2, … as a file; the first is the catalogue. trailer is what stands in the trailer besides.
func build(trailer string, objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.7\n")
	at := make([]int, len(objects))
	for i, o := range objects {
		at[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	xref := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, trailer, xref)
	return b.Bytes()
}

func stream(content, dict string) string {
	return fmt.Sprintf("<</Length %d%s>>\nstream\n%s\nendstream", len(content), dict, content)
}

// deflated packs unit, repeated: it is packed once, for its block stands on its own, so that bombs cost nothing to make.
func deflated(t testing.TB, unit string, times int) string {
	t.Helper()
	var b bytes.Buffer
	z, err := flate.NewWriter(&b, flate.BestCompression)
	require.NoError(t, err)
	_, err = z.Write([]byte(unit))
	require.NoError(t, err)
	require.NoError(t, z.Flush())
	return "\x78\xda" + strings.Repeat(b.String(), times) + "\x01\x00\x00\xff\xff" + "\x00\x00\x00\x00" // nobody looks at the checksum
}

const (
	catalogue = "<</Type/Catalog/Pages 2 0 R>>"
	onePage   = "<</Type/Pages/Kids[3 0 R]/Count 1>>"
	thePage   = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>"
)

// single is a file of one page with that content stream.
func single(content, font string) []byte {
	return build("", catalogue, onePage, thePage, content, font)
}

// printed is a file with a page for each list of lines, each line "size x y text".
func printed(pages ...[]string) []byte {
	objects := []string{catalogue, "", helvetica}
	var kids []string
	for _, lines := range pages {
		var c strings.Builder
		for _, l := range lines {
			var size, x, y float64
			var text string
			if n, err := fmt.Sscanf(l, "%f %f %f", &size, &x, &y); err != nil || n != 3 {
				panic(l)
			}
			text = strings.SplitN(l, " ", 4)[3]
			fmt.Fprintf(&c, "BT /F1 %g Tf %g %g Td (%s) Tj ET\n", size, x, y, strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`).Replace(text))
		}
		n := len(objects) + 1
		kids = append(kids, fmt.Sprintf("%d 0 R", n))
		objects = append(objects,
			fmt.Sprintf("<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents %d 0 R/Resources<</Font<</F1 3 0 R>>>>>>", n+1), stream(c.String(), ""))
	}
	objects[1] = fmt.Sprintf("<</Type/Pages/Kids[%s]/Count %d>>", strings.Join(kids, " "), len(kids))
	return build("", objects...)
}
