package parse

import (
	"bytes"
	"path"
	"strings"

	"github.com/factmill/factmill/pkg/fault"
)

// Head is how many bytes of a source Guess looks at.
const Head = 4096

// Guess tells the format of a source by its content, for one whose name does not tell. A name without an extension may be a
// text; an extension that is not known says that it is something else, so only what is unmistakable is taken then.
// A JSON text is no list of records unless somebody says so.
func Guess(head []byte, name string) (string, error) {
	head = head[:min(len(head), Head)]
	switch {
	case bytes.HasPrefix(head, []byte("%PDF-")):
		return PDF, nil
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return DOCX, nil // its reader refuses other archives
	}
	mark := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF")), " \t\r\n"))
	switch {
	case bytes.HasPrefix(mark, []byte("<!doctype html")), bytes.HasPrefix(mark, []byte("<html")):
		return HTML, nil
	case bytes.HasPrefix(mark, []byte("<?xml")):
		if bytes.Contains(mark, []byte("<html")) {
			return HTML, nil
		}
		if !bytes.Contains(mark, []byte("<svg")) {
			return XML, nil
		}
	}
	if ext := strings.TrimPrefix(path.Ext(name), "."); ext != "" {
		_, err := Format(ext, name)
		return "", err
	}
	if isText(head) {
		return Text, nil
	}
	return "", fault.Bad(CodeFormat, "%q is neither a text nor of a format that is read; these are: %s", clip(name, 200), strings.Join(Known(), ", "))
}

// isText tells a text in any encoding from other bytes: it has no NUL (save in UTF-16, which a mark tells) and hardly a control
// character. Which encoding it is, is not for a guess.
func isText(head []byte) bool {
	if bytes.HasPrefix(head, []byte{0xFF, 0xFE}) || bytes.HasPrefix(head, []byte{0xFE, 0xFF}) {
		return true
	}
	controls := 0
	for _, c := range head {
		switch {
		case c == 0:
			return false
		case c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1B:
			controls++
		}
	}
	return controls*50 <= len(head)
}
