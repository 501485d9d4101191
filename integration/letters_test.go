package integration

import (
	"fmt"
	"strings"
)

// letters are n small documents over shared names.
func letters(job string, n int) map[string]any {
	var docs []any
	for i := range n {
		docs = append(docs, inline(fmt.Sprintf("%s%03d", job, i), letter(i, 0)))
	}
	return map[string]any{"job": job, "documents": docs}
}

// letter is a document's text, of at least size bytes.
func letter(i, size int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s worked for Harbour Trust. Harbour Trust is located in Port Marrow.", spelt(i))
	for line := 0; b.Len() < size; line++ {
		fmt.Fprintf(&b, "\n\nOn day %d Tobias Renn worked for Vale Mills in Lower Sarn and %s worked for Northern Crossings.", line, spelt(line))
	}
	return b.String()
}

func spelt(i int) string {
	first := []string{"Ada", "Bo", "Cleo", "Dora", "Egon", "Fay", "Gus", "Hal"}
	last := []string{"Abel", "Brook", "Crane", "Dale", "Ember", "Frost", "Glen", "Hurst", "Ives"}
	return first[i%len(first)] + " " + last[i/len(first)%len(last)]
}

func inline(key, text string, more ...string) map[string]any {
	d := map[string]any{"key": key, "text": text}
	for i := 0; i+1 < len(more); i += 2 {
		d[more[i]] = more[i+1]
	}
	return d
}
