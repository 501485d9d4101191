package pdf

import (
	"context"
	"errors"
	"math/rand"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fault"
)

func isFault(t testing.TB, err error, code, message string) {
	t.Helper()
	require.EqualError(t, err, message)
	require.Equal(t, fault.Document, fault.Of(err).Class)
	require.Equal(t, code, fault.Of(err).Code)
}

func TestRead(t *testing.T) {
	data := printed(
		[]string{
			"24 72 740 Annual report", "10 72 700 Ada Lovelace worked for Acme Ltd. She left in", "10 72 687 1852 and joined Beta GmbH.",
			"10 72 660 Charles Babbage \x96 her friend \x96 stayed.", "10 72 40 1",
		},
		nil,
		[]string{"10 72 740 Caf\xe9 Gr\xf6\xdfe (closed)"},
	)
	doc, err := Read(t.Context(), data, Limits{})
	require.NoError(t, err)
	require.Equal(t, []string{
		"Annual report\n\nAda Lovelace worked for Acme Ltd. She left in\n1852 and joined Beta GmbH.\n\nCharles Babbage – her friend – stayed.\n\n1",
		"",
		"Café Größe (closed)",
	}, doc.Pages)
	require.Equal(t, []int{2}, doc.Silent())
	require.Empty(t, doc.Unmapped)
	require.Equal(t, doc.Pages[0]+"\n\n"+doc.Pages[2], doc.Text())
	again, err := Read(t.Context(), data, Limits{})
	require.NoError(t, err)
	require.Equal(t, doc, again, "the same file reads the same")
}

func TestReadProperties(t *testing.T) {
	objects := []string{catalogue, onePage, thePage, stream("BT /F1 12 Tf 72 700 Td (Text.) Tj ET", ""), helvetica,
		"<</Title<feff0047007200f600df0065>/CreationDate(D:20240501123000+02'00')>>"}
	doc, err := Read(t.Context(), build("/Info 6 0 R", objects...), Limits{})
	require.NoError(t, err)
	require.Equal(t, &Document{Title: "Größe", Created: "2024-05-01T12:30:00+02:00", Pages: []string{"Text."}}, doc)
}

func TestDate(t *testing.T) {
	for in, want := range map[string]string{
		"D:20240501123000+02'00'": "2024-05-01T12:30:00+02:00", "D:20240501123000+02'00": "2024-05-01T12:30:00+02:00", "D:20240501123000Z": "2024-05-01T12:30:00Z",
		"D:20240501123000Z00'00'": "2024-05-01T12:30:00Z", "D:20240501123000": "2024-05-01", "D:20240501": "2024-05-01", "D:202405": "2024-05", "2024": "2024",
		"": "", "yesterday": "", "D:20241350": "", "D:00000000": "",
	} {
		require.Equal(t, want, date(in), in)
	}
}

func TestReadCompressed(t *testing.T) {
	doc, err := Read(t.Context(), single(stream(deflated(t, "BT /F1 12 Tf 72 700 Td (Packed.) Tj ET", 1), "/Filter/FlateDecode"), helvetica), Limits{})
	require.NoError(t, err)
	require.Equal(t, "Packed.", doc.Text())
}

func TestReadUnmappedFonts(t *testing.T) {
	data := single(stream("BT /F1 12 Tf 72 700 Td <0024004400480049> Tj ET", ""), nameless)
	_, err := Read(t.Context(), data, Limits{})
	isFault(t, err, "no_text_layer", "none of the PDF's 1 page has text that can be read: the fonts do not say which characters they show; run text recognition over it first")
}

func TestCoverage(t *testing.T) {
	for _, c := range []struct {
		pages          []int
		of             int
		unmapped       []int
		ranges, wanted string
	}{
		{[]int{2}, 3, nil, "2", "page 2 of 3 has no text: scanned, drawn or blank"},
		{[]int{1, 3, 4, 5, 7, 8}, 9, nil, "1, 3-5, 7-8", "pages 1, 3-5, 7-8 of 9 have no text: scanned, drawn or blank"},
		{[]int{1, 2}, 3, []int{2}, "1-2", "pages 1-2 of 3 have no text: scanned, drawn or blank (on 2 the fonts do not say which characters they show)"},
	} {
		d := &Document{Pages: make([]string, c.of), Unmapped: c.unmapped}
		for i := range d.Pages {
			if !slices.Contains(c.pages, i+1) {
				d.Pages[i] = "x"
			}
		}
		require.Equal(t, c.ranges, Ranges(d.Silent()))
		require.Equal(t, c.wanted, d.Coverage())
	}
	var odd []int
	for i := range 5000 {
		odd = append(odd, 2*i+1)
	}
	require.Less(t, len(Ranges(odd)), maxRanges+20)
	require.True(t, strings.HasSuffix(Ranges(odd), ", …"))
}

// TestReadOnePageUnmapped: the page whose fonts say nothing is silent, the other one is read.
func TestReadOnePageUnmapped(t *testing.T) {
	page := "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 7 0 R/Resources<</Font<</F1 6 0 R>>>>>>"
	doc, err := Read(t.Context(), build("", catalogue, "<</Type/Pages/Kids[3 0 R 8 0 R]/Count 2>>", thePage, stream("BT /F1 12 Tf 72 700 Td (Read.) Tj ET", ""), helvetica,
		nameless, stream("BT /F1 12 Tf 72 700 Td <002400440048> Tj ET", ""), page), Limits{})
	require.NoError(t, err)
	require.Equal(t, &Document{Pages: []string{"Read.", ""}, Unmapped: []int{2}}, doc)
}

func TestReadRefuses(t *testing.T) {
	huge := "%PDF-1.7\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\nxref\n0 2\n0000000000 65535 f \n0000000009 00000 n \n" +
		"trailer\n<</Size 2147483647/Root 1 0 R>>\nstartxref\n56\n%%EOF"
	locked := build("/ID[<00><00>]/Encrypt<</Filter/Standard/V 1/R 2/P -4/O<"+strings.Repeat("41", 32)+">/U<"+strings.Repeat("42", 32)+">>>",
		catalogue, onePage, thePage, stream("", ""), helvetica)
	for _, c := range []struct {
		name          string
		data          []byte
		limits        Limits
		code, message string
	}{
		{"empty", nil, Limits{}, "bad_pdf", "the PDF is empty"},
		{"not one", []byte("hello"), Limits{}, "bad_pdf", "the PDF is damaged: open it: 3: incorrect format"},
		{"only the mark", []byte("%PDF-1.7"), Limits{}, "bad_pdf", "the PDF is damaged: open it: 3: incorrect format"},
		{"a size beyond reason", []byte(huge), Limits{}, "bad_pdf", "the PDF is damaged: open it: 3: incorrect format"},
		{"no pages", build("", catalogue, "<</Type/Pages/Kids[]/Count 2000000000>>"), Limits{}, "bad_pdf", "the PDF is damaged: it has no pages"},
		{"pages in a circle", build("", catalogue, "<</Type/Pages/Kids[2 0 R]/Count 1>>"), Limits{}, "no_text_layer",
			"none of the PDF's 1 page has text that can be read: it is scanned or drawn; run text recognition over it first"},
		{"blank", printed(nil, nil), Limits{}, "no_text_layer", "none of the PDF's 2 pages has text that can be read: it is scanned or drawn; run text recognition over it first"},
		{"locked", locked, Limits{}, "encrypted", "the PDF is encrypted: save it without a password"},
		{"too many pages", printed(nil, nil, nil), Limits{Pages: 2}, "too_many_pages", "the PDF has 3 pages: at most 2"},
		{"too much text on a page", printed([]string{"10 72 700 Ada Lovelace"}), Limits{Text: 5}, "too_large", "page 1 of the PDF has 12 characters: at most 5 bytes are left for it"},
		{"too much text", printed([]string{"10 72 700 \xdf\xdf\xdf"}), Limits{Text: 4}, "too_large", "the PDF has more than 4 bytes of text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(t.Context(), c.data, c.limits)
			isFault(t, err, c.code, c.message)
		})
	}
}

// TestReadBomb: 400 MiB of nothing, packed to some hundred kilobytes, do not leave the sandbox.
func TestReadBomb(t *testing.T) {
	if _, err := engine(); err != nil {
		t.Fatal(err)
	}
	data := single(stream(deflated(t, strings.Repeat(" ", 1<<20), 400), "/Filter/FlateDecode"), helvetica)
	require.Less(t, len(data), 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Read(t.Context(), data, Limits{})
	runtime.ReadMemStats(&after)
	isFault(t, err, "bad_pdf", "the PDF is damaged, or needs more than 256 MiB of memory: read page 1")
	require.Less(t, after.Sys-min(before.Sys, after.Sys), uint64(1<<30))
	doc, err := Read(t.Context(), printed([]string{"10 72 700 Next."}), Limits{})
	require.NoError(t, err)
	require.Equal(t, "Next.", doc.Text(), "the next file has a sandbox of its own")
}

// TestReadIsStopped: a page of a million lines takes PDFium long; time and a stop of the service end it in the middle.
func TestReadIsStopped(t *testing.T) {
	if _, err := engine(); err != nil {
		t.Fatal(err)
	}
	data := single(stream(deflated(t, "BT /F1 12 Tf 72 700 Td (Slow.) Tj ET\n", 1_000_000), "/Filter/FlateDecode"), helvetica)
	_, err := Read(t.Context(), data, Limits{Time: 100 * time.Millisecond})
	isFault(t, err, "too_slow", "the PDF could not be read within 100ms")

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = Read(ctx, data, Limits{})
	require.Equal(t, fault.Interrupted, fault.Of(err).Class)

	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Read(done, printed([]string{"10 72 700 x"}), Limits{})
	require.Equal(t, fault.Interrupted, fault.Of(err).Class)
	require.True(t, errors.Is(err, context.Canceled))

	doc, err := Read(t.Context(), printed([]string{"10 72 700 Next."}), Limits{})
	require.NoError(t, err)
	require.Equal(t, "Next.", doc.Text())
}

func TestReadAtOnce(t *testing.T) {
	data := printed([]string{"10 72 700 Ada."})
	results := make(chan error)
	for range 3 * sandboxes {
		go func() {
			doc, err := Read(t.Context(), data, Limits{})
			if err == nil && doc.Text() != "Ada." {
				err = errors.New(doc.Text())
			}
			results <- err
		}()
	}
	for range 3 * sandboxes {
		require.NoError(t, <-results)
	}
}

func TestLayout(t *testing.T) {
	type at struct {
		text    string
		y, size float64
	}
	for _, c := range []struct {
		name  string
		lines []at
		want  string
	}{
		{"one paragraph", []at{{"Ada worked", 700, 10}, {"for Acme.", 688, 10}}, "Ada worked\nfor Acme."},
		{"a gap", []at{{"One", 700, 10}, {"two.", 688, 10}, {"Three", 664, 10}, {"four.", 652, 10}}, "One\ntwo.\n\nThree\nfour."},
		{"double spacing is one paragraph", []at{{"One", 700, 10}, {"two", 676, 10}, {"three.", 652, 10}}, "One\ntwo\nthree."},
		{"a heading", []at{{"Head", 700, 14}, {"Text", 684, 10}, {"more", 672, 10}}, "Head\n\nText\nmore"},
		{"columns", []at{{"One", 700, 10}, {"two.", 688, 10}, {"Three", 700, 10}, {"four", 688, 10}, {"goes on", 700, 10}}, "One\ntwo.\n\nThree\nfour\ngoes on"},
		{"a divided word", []at{{"manip\uFFFEulation of Jean\uFFFEPaul", 700, 10}}, "manipulation of Jean-Paul"},
		{"controls", []at{{"a\x00b\x01\tc\x7f\uFFFF", 700, 10}, {"  \x02", 688, 10}, {"d", 676, 10}}, "ab c\nd"},
		{"places that cannot be", []at{{"a", 1e12, 10}, {"b", 688, -1}}, "a\nb"},
		{"beyond the basic plane", []at{{"𝔸da 😀", 700, 10}, {"next", 600, 10}, {"line", 588, 10}}, "𝔸da 😀\n\nnext\nline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text strings.Builder
			places := map[int]place{}
			n := 0
			for i, l := range c.lines {
				if i > 0 {
					text.WriteString("\r\n")
					n += 2
				}
				for range utf16Len(l.text) {
					places[n] = place{l.y, l.size}
					n++
				}
				text.WriteString(l.text)
			}
			require.Equal(t, c.want, layout(text.String(), func(at int) (place, bool) { p, ok := places[at]; return p, ok }))
		})
	}
	require.Equal(t, "a\nb", layout("a\r\nb", func(int) (place, bool) { return place{}, false }))
	long := strings.Repeat("x\r\n", 3*maxLines)
	asked := 0
	layout(long, func(int) (place, bool) { asked++; return place{}, true })
	require.LessOrEqual(t, asked, 3*maxLines)
}

func FuzzRead(f *testing.F) {
	f.Add(printed([]string{"10 72 700 Ada Lovelace", "10 72 688 worked."}, nil))
	f.Add(single(stream("BT /F1 12 Tf 72 700 Td <0024> Tj ET", ""), nameless))
	f.Add([]byte("%PDF-1.7\nxref\n0 1\ntrailer<</Root 1 0 R/Size 9>>\nstartxref\n9\n%%EOF"))
	f.Add(build("", catalogue, "<</Type/Pages/Kids[2 0 R 2 0 R]/Count -1>>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Read(t.Context(), data, Limits{Time: 20 * time.Second, Pages: 50, Text: 1 << 20})
		if err != nil {
			require.Equal(t, fault.Document, fault.Of(err).Class, "%v", err)
			return
		}
		require.Less(t, len(doc.Silent()), len(doc.Pages))
		require.LessOrEqual(t, len(doc.Text()), 1<<20)
		require.NotContains(t, doc.Text(), "\x00")
	})
}

// TestReadDamaged reads files in which bytes were changed, cut out or doubled.
func TestReadDamaged(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	whole := [][]byte{
		printed([]string{"14 72 720 Head", "10 72 700 Ada Lovelace", "10 72 688 worked."}, nil),
		single(stream(deflated(t, "BT /F1 12 Tf 72 700 Td (Packed.) Tj ET ", 3), "/Filter/FlateDecode"), helvetica),
		single(stream("BT /F1 12 Tf 72 700 Td <0024> Tj ET", ""), nameless),
	}
	for range 300 {
		data := slices.Clone(whole[rng.Intn(len(whole))])
		for range 1 + rng.Intn(4) {
			at := rng.Intn(len(data))
			switch rng.Intn(4) {
			case 0:
				data[at] = byte(rng.Intn(256))
			case 1:
				data = slices.Delete(data, at, min(len(data), at+1+rng.Intn(20)))
			case 2:
				data = slices.Insert(data, at, data[at:min(len(data), at+1+rng.Intn(20))]...)
			default:
				data = slices.Insert(data, at, '9')
			}
			if len(data) == 0 {
				data = []byte{' '}
			}
		}
		doc, err := Read(t.Context(), data, Limits{Text: 1 << 20})
		if err != nil {
			require.Equal(t, fault.Document, fault.Of(err).Class, "%q: %v", data, err)
			continue
		}
		require.Less(t, len(doc.Silent()), len(doc.Pages), "%q", data)
	}
}
