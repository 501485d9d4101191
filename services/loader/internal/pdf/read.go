package pdf

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/klippa-app/go-pdfium"
	pdferrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"

	"github.com/factmill/factmill/pkg/fault"
)

// Codes of the document faults.
const (
	CodeBroken    = "bad_pdf"
	CodeEncrypted = "encrypted"
	CodeNoText    = "no_text_layer"
	CodeTooMany   = "too_many_pages"
	CodeTooBig    = "too_large"
	CodeTooSlow   = "too_slow"
)

// Limits of one file. A zero field is its default.
type Limits struct {
	// Text is the most bytes of text. Defaults to 32 MiB.
	Text int
	// Pages is the most pages. Defaults to 10,000.
	Pages int
	// Time that reading may take, waiting for a sandbox aside. Defaults to two minutes: far beyond what any real file needs.
	Time time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.Text == 0 {
		l.Text = 32 << 20
	}
	if l.Pages == 0 {
		l.Pages = 10_000
	}
	if l.Time == 0 {
		l.Time = 2 * time.Minute
	}
	return l
}

// Document is what a file says.
type Document struct {
	// Title and Created (RFC 3339, or a date) are the file's own properties; empty where it has none.
	Title, Created string
	// Pages has the text of each page, paragraphs apart by a blank line; empty for a page without a text layer.
	Pages []string
	// Unmapped are the pages, from 1, that show text in fonts that do not say which characters they show: they count as without text,
	// for what would be read is other letters.
	Unmapped []int
}

// Text joins the pages; a page break is the end of a paragraph.
func (d *Document) Text() string {
	var b strings.Builder
	for _, p := range d.Pages {
		if p == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(p)
	}
	return b.String()
}

// Silent lists the pages without text, from 1.
func (d *Document) Silent() []int {
	var out []int
	for i, p := range d.Pages {
		if p == "" {
			out = append(out, i+1)
		}
	}
	return out
}

// Coverage says in a sentence which pages have no text, and why where that is known.
func (d *Document) Coverage() string {
	silent := d.Silent()
	pages, have := "pages", "have"
	if len(silent) == 1 {
		pages, have = "page", "has"
	}
	s := fmt.Sprintf("%s %s of %d %s no text: scanned, drawn or blank", pages, Ranges(silent), len(d.Pages), have)
	if len(d.Unmapped) > 0 {
		s = fmt.Sprintf("%s (on %s %v)", s, Ranges(d.Unmapped), errUnmapped)
	}
	return s
}

// maxRanges bounds a list of pages as text.
const maxRanges = 400

// Ranges writes pages, sorted, as "2, 4-7".
func Ranges(pages []int) string {
	var b strings.Builder
	for i := 0; i < len(pages); i++ {
		if b.Len() > maxRanges {
			b.WriteString(", …")
			break
		}
		first := i
		for i+1 < len(pages) && pages[i+1] == pages[i]+1 {
			i++
		}
		if first > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(pages[first]))
		if i > first {
			b.WriteString("-" + strconv.Itoa(pages[i]))
		}
	}
	return b.String()
}

// Read reads the text layer of data. What is wrong with the file is a document fault; a file in which no page has text is one too.
func Read(ctx context.Context, data []byte, limits Limits) (doc *Document, err error) {
	limits = limits.withDefaults()
	if len(data) == 0 {
		return nil, fault.Bad(CodeBroken, "the PDF is empty")
	}
	pool, err := engine()
	if err != nil {
		return nil, fault.Fatal("pdf_engine", "start the PDF reader: %w", err)
	}
	box, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		return nil, interrupted(ctx, fault.Fatal("pdf_engine", "start the PDF reader: %w", err))
	}
	timed, cancel := context.WithTimeoutCause(ctx, limits.Time, errTime)
	defer cancel()
	killed := make(chan struct{})
	stop := context.AfterFunc(timed, func() { defer close(killed); _ = box.Kill() })
	defer func() {
		if stop() {
			_ = box.Close() // what it held goes with the sandbox
			return
		}
		<-killed
	}()
	doc, err = read(timed, box, data, limits)
	if errors.Is(context.Cause(timed), errTime) {
		return nil, fault.Bad(CodeTooSlow, "the PDF could not be read within %v", limits.Time)
	}
	if err != nil {
		return nil, interrupted(ctx, err)
	}
	if len(doc.Silent()) == len(doc.Pages) {
		why := "it is scanned or drawn"
		if len(doc.Unmapped) > 0 {
			why = errUnmapped.Error()
		}
		return nil, fault.Bad(CodeNoText, "none of the PDF's %s has text that can be read: %s; run text recognition over it first", count(len(doc.Pages), "page"), why)
	}
	return doc, nil
}

var (
	errTime     = errors.New("the time is over")
	errUnmapped = errors.New("the fonts do not say which characters they show")
)

// interrupted prefers that ctx is done over what came of it.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: ctx.Err()}
	}
	return err
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// broken classifies an error out of the sandbox.
func broken(doing string, err error) error {
	switch {
	case errors.Is(err, pdferrors.ErrPassword), errors.Is(err, pdferrors.ErrSecurity):
		return fault.Bad(CodeEncrypted, "the PDF is encrypted: save it without a password")
	case errors.Is(err, pdferrors.ErrFormat), errors.Is(err, pdferrors.ErrFile), errors.Is(err, pdferrors.ErrUnknown), errors.Is(err, pdferrors.ErrPage):
		return fault.Bad(CodeBroken, "the PDF is damaged: %s: %w", doing, err)
	default: // the sandbox gave up: out of its memory, or a fault inside
		return fault.Bad(CodeBroken, "the PDF is damaged, or needs more than %d MiB of memory: %s", sandboxPages/16, doing)
	}
}

func read(ctx context.Context, box pdfium.Pdfium, data []byte, limits Limits) (doc *Document, err error) {
	defer func() { // in the bindings: the sandbox itself cannot
		if p := recover(); p != nil {
			doc, err = nil, broken("read it", fmt.Errorf("%v", p))
		}
	}()
	opened, err := box.OpenDocument(&requests.OpenDocument{File: &data})
	if err != nil {
		return nil, broken("open it", err)
	}
	pages, err := box.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		return nil, broken("count its pages", err)
	}
	if pages.PageCount > limits.Pages {
		return nil, fault.Bad(CodeTooMany, "the PDF has %d pages: at most %d", pages.PageCount, limits.Pages)
	}
	if pages.PageCount <= 0 {
		return nil, fault.Bad(CodeBroken, "the PDF is damaged: it has no pages")
	}
	doc = &Document{
		Title: strings.TrimSpace(property(box, opened.Document, "Title")), Created: date(property(box, opened.Document, "CreationDate")),
		Pages: make([]string, pages.PageCount),
	}
	left := limits.Text
	for i := range doc.Pages {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, err := readPage(box, opened.Document, i, left)
		if errors.Is(err, errUnmapped) {
			doc.Unmapped = append(doc.Unmapped, i+1)
			continue
		}
		if err != nil {
			return nil, err
		}
		if left -= len(text) + 2; left < 0 {
			return nil, fault.Bad(CodeTooBig, "the PDF has more than %d bytes of text", limits.Text)
		}
		doc.Pages[i] = text
	}
	return doc, nil
}

func property(box pdfium.Pdfium, doc references.FPDF_DOCUMENT, tag string) string {
	got, err := box.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: doc, Tag: tag})
	if err != nil { // most have none
		return ""
	}
	return got.Value
}

// date reads D:YYYYMMDDHHmmSSOHH'mm', of which all behind the year may be missing.
func date(s string) string {
	s = strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(s), "D:"), "'", "")
	s = strings.Replace(s, "Z0000", "Z", 1)
	for _, f := range []struct{ in, out string }{
		{"20060102150405-0700", time.RFC3339}, {"20060102150405-07", time.RFC3339}, {"20060102150405Z", time.RFC3339}, {"20060102150405", "2006-01-02"},
		{"200601021504", "2006-01-02"}, {"20060102", "2006-01-02"}, {"200601", "2006-01"}, {"2006", "2006"},
	} {
		if t, err := time.Parse(f.in, s); err == nil && t.Year() > 0 {
			return t.Format(f.out)
		}
	}
	return ""
}

// readPage returns the text of page i. A page that is itself damaged has none; only a sandbox that gave up ends the reading.
func readPage(box pdfium.Pdfium, doc references.FPDF_DOCUMENT, i, limit int) (string, error) {
	doing := fmt.Sprintf("read page %d", i+1)
	page, err := box.FPDFText_LoadPage(&requests.FPDFText_LoadPage{Page: requests.Page{ByIndex: &requests.PageByIndex{Document: doc, Index: i}}})
	if err != nil {
		if errors.Is(err, pdferrors.ErrPage) || errors.Is(err, pdferrors.ErrUnknown) || errors.Is(err, pdferrors.ErrFormat) {
			return "", nil
		}
		return "", broken(doing, err)
	}
	defer func() { _, _ = box.FPDFText_ClosePage(&requests.FPDFText_ClosePage{TextPage: page.TextPage}) }() // frees memory of the sandbox only
	n, err := box.FPDFText_CountChars(&requests.FPDFText_CountChars{TextPage: page.TextPage})
	if err != nil {
		return "", broken(doing, err)
	}
	switch {
	case n.Count > limit:
		return "", fault.Bad(CodeTooBig, "page %d of the PDF has %d characters: at most %d bytes are left for it", i+1, n.Count, limit)
	case n.Count <= 0:
		return "", nil
	case unmapped(box, page.TextPage, n.Count):
		return "", errUnmapped
	}
	got, err := box.FPDFText_GetText(&requests.FPDFText_GetText{TextPage: page.TextPage, Count: n.Count})
	if err != nil {
		return "", broken(doing, err)
	}
	return layout(got.Text, func(at int) (place, bool) { return locate(box, page.TextPage, at) }), nil
}

// maxSample is how many characters of a page are asked whether their font says which they are.
const maxSample = 400

// unmapped tells whether a font leaves more than a tenth of a page's characters without a meaning.
func unmapped(box pdfium.Pdfium, page references.FPDF_TEXTPAGE, chars int) bool {
	asked, without := 0, 0
	for i := 0; i < chars; i += 1 + chars/maxSample {
		got, err := box.FPDFText_HasUnicodeMapError(&requests.FPDFText_HasUnicodeMapError{TextPage: page, Index: i})
		if err != nil {
			continue
		}
		asked++
		if got.HasUnicodeMapError {
			without++
		}
	}
	return without*10 > asked
}

// locate finds where a character stands, by its place in the page's text in UTF-16 units.
func locate(box pdfium.Pdfium, page references.FPDF_TEXTPAGE, at int) (place, bool) {
	index, err := box.FPDFText_GetCharIndexFromTextIndex(&requests.FPDFText_GetCharIndexFromTextIndex{TextPage: page, NTextIndex: at})
	if err != nil {
		return place{}, false
	}
	origin, err := box.FPDFText_GetCharOrigin(&requests.FPDFText_GetCharOrigin{TextPage: page, Index: index.CharIndex})
	if err != nil {
		return place{}, false
	}
	size, err := box.FPDFText_GetFontSize(&requests.FPDFText_GetFontSize{TextPage: page, Index: index.CharIndex})
	if err != nil {
		return place{}, false
	}
	return place{y: origin.Y, size: size.FontSize}, true
}
