package schema

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/fingerprint"
)

// maxLabel is the length of a label in bytes.
const maxLabel = 128

var (
	reservedEntities  = []string{"Document", "Chunk", "Section", "Candidate", "Job", "ResolvedEntity"}
	reservedRelations = []string{"HAS_PART", "NEXT_CHUNK", "MENTIONED_IN", "MATCHES", "RESOLVED_AS", "EVIDENCED_BY", "SOURCE", "TARGET"}
	// reserved holds exact labels of both kinds, and folded ones under their kind.
	reserved = reservedLabels()
)

func reservedLabels() map[string]bool {
	set := map[string]bool{}
	for _, label := range reservedEntities {
		set[label] = true
		set[KindEntity+":"+foldLabel(label)] = true
	}
	for _, label := range reservedRelations {
		set[label] = true
		set[KindRelation+":"+foldLabel(label)] = true
	}
	return set
}

// CheckLabel says what is wrong with a new label of a kind (KindEntity or KindRelation): malformed, too long, or
// reserved for what Factmill stores itself. Reserved labels of the same kind are compared with case, spaces, "_" and "-"
// folded.
func CheckLabel(kind, label string) error {
	if err := checkName(label); err != nil {
		return err
	}
	if reserved[label] || reserved[kind+":"+foldLabel(label)] {
		return fmt.Errorf("%s is reserved", quote(label))
	}
	return nil
}

// CheckName says what is wrong with a new property name: labels and property names share a grammar.
func CheckName(name string) error { return checkName(name) }

// checkName checks the grammar that labels and property names share.
func checkName(name string) error {
	if name == "" {
		return fmt.Errorf("a name is empty")
	}
	if len(name) > maxLabel {
		return fmt.Errorf("%s is longer than %d characters", quote(name), maxLabel)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || i > 0 && '0' <= c && c <= '9' {
			continue
		}
		return fmt.Errorf("%s is malformed: letters, digits and _ only, no digit first", quote(name))
	}
	return nil
}

// FoldLabel is the form in which labels are compared: case, white space, "_" and "-" do not count.
func FoldLabel(label string) string { return foldLabel(label) }

// foldLabel folds case, white space, "_" and "-" away.
func foldLabel(label string) string {
	folded := fingerprint.Fold(label)
	if !strings.ContainsAny(folded, " _-") {
		return folded
	}
	short := strings.Map(func(r rune) rune {
		if r == ' ' || r == '_' || r == '-' {
			return -1
		}
		return r
	}, folded)
	if short == "" {
		return folded
	}
	return short
}

// quote shows text of a file in a message: quoted and cut.
func quote(s string) string {
	const limit = 80
	if utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit]) + "…"
	}
	return fmt.Sprintf("%q", s)
}

// hint names the known word that was probably meant, as the end of a message, or is empty.
func hint(seen string, known []string) string {
	if len(seen) > maxLabel {
		return ""
	}
	folded := foldLabel(seen)
	best, bestDistance := "", 3
	switch n := utf8.RuneCountInString(folded); {
	case n <= 1:
		bestDistance = 1
	case n <= 3:
		bestDistance = 2
	case n > 8:
		bestDistance = 4
	}
	for _, word := range known {
		d := distance(folded, foldLabel(word), bestDistance)
		if d < bestDistance || d == bestDistance && best != "" && word < best {
			best, bestDistance = word, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", best)
}

// Suggest names the known label that was probably meant, as the end of a message, or is empty.
func Suggest(seen string, known []string) string { return hint(seen, known) }

// distance is the number of edits (insert, delete, replace, swap of neighbours) between two words, or more than limit.
func distance(a, b string, limit int) int {
	x, y := []rune(a), []rune(b)
	if len(x)-len(y) > limit || len(y)-len(x) > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range last {
		last[j] = j
	}
	for i := range x {
		row[0] = i + 1
		least := row[0]
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			least = min(least, row[j+1])
		}
		if least > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return last[len(y)]
}
