package parse

import "strings"

// maxTitle is the longest title that is taken out of a text, in bytes.
const maxTitle = 512

// FirstHeading returns the text of the first Markdown heading ("# …", or underlined) outside fenced code; else "".
func FirstHeading(text string) string {
	fence, last := "", ""
	for len(text) > 0 {
		line, rest := cutLine(text)
		text = rest
		t := strings.TrimRight(line, " \t\r")
		body := strings.TrimLeft(t, " ")
		switch indent := len(t) - len(body); {
		case fence != "":
			if strings.HasPrefix(body, fence) && strings.Trim(body, fence[:1]) == "" {
				fence = ""
			}
			continue
		case indent > 3:
			last = ""
			continue
		}
		if fence = fenceOf(body); fence != "" {
			last = ""
			continue
		}
		if h := atxHeading(body); h != "" {
			return title(h)
		}
		if last != "" && body != "" && (strings.Trim(body, "=") == "" || strings.Trim(body, "-") == "") {
			return title(last)
		}
		last = body
		if body != "" && strings.ContainsRune("|>-+*#<", rune(body[0])) { // not a paragraph that can be underlined
			last = ""
		}
	}
	return ""
}

// cutLine cuts at LF, CRLF or CR: headings are looked for before line ends are normalised.
func cutLine(s string) (line, rest string) {
	i := strings.IndexAny(s, "\r\n")
	if i < 0 {
		return s, ""
	}
	if s[i] == '\r' && i+1 < len(s) && s[i+1] == '\n' {
		return s[:i], s[i+2:]
	}
	return s[:i], s[i+1:]
}

// fenceOf returns the run of ` or ~ that opens a code block.
func fenceOf(body string) string {
	for _, c := range []string{"`", "~"} {
		n := len(body) - len(strings.TrimLeft(body, c))
		if n >= 3 && (c == "~" || !strings.Contains(body[n:], "`")) {
			return body[:n]
		}
	}
	return ""
}

func atxHeading(body string) string {
	n := len(body) - len(strings.TrimLeft(body, "#"))
	if n < 1 || n > 6 || n == len(body) || (body[n] != ' ' && body[n] != '\t') {
		return ""
	}
	h := strings.TrimSpace(body[n:])
	if cut := strings.TrimRight(h, "#"); cut == "" || strings.HasSuffix(cut, " ") || strings.HasSuffix(cut, "\t") {
		h = strings.TrimSpace(cut)
	}
	return h
}

// Title makes a title of a document's property: one line of bounded length.
func Title(s string) string { return title(s) }

// title makes one line of bounded length.
func title(s string) string {
	if len(s) > maxTitle {
		s = strings.ToValidUTF8(s[:maxTitle], "")
	}
	return strings.Join(strings.Fields(strings.TrimPrefix(s, "\uFEFF")), " ")
}
