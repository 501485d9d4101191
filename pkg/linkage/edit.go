package linkage

import (
	"math/bits"
	"unicode/utf8"
)

// ratio is 1 - indels / letters of two texts, indels being the fewest insertions and deletions that turn one into the
// other, or 0 when it is under least. It is what record linkage calls the normalised indel similarity.
func ratio(a, b []rune, least float64) float64 {
	total := len(a) + len(b)
	if total == 0 {
		return 0
	}
	room := budget(total, least)
	diff := len(a) - len(b)
	if diff < 0 {
		diff = -diff
	}
	if diff > room {
		return 0
	}
	d := indels(a, b, room)
	if d > room {
		return 0
	}
	return 1 - float64(d)/float64(total)
}

// budget is how many indels texts of total letters may be apart for a ratio of least.
func budget(total int, least float64) int {
	d := int((1-least)*float64(total) + 1e-9)
	for d > 0 && 1-float64(d)/float64(total) < least-1e-9 {
		d--
	}
	return d
}

// indels counts insertions and deletions between a and b; over room it returns room+1. Names are short and room is at
// most four: a band of the table is enough.
func indels(a, b []rune, room int) int {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 0 || len(b) == 0 {
		return min(len(a)+len(b), room+1)
	}
	if room < 2 {
		return room + 1
	}
	var row [4*MaxRunes + 1]int
	far := room + 1
	if len(b) >= len(row) {
		return far
	}
	for j := range b {
		row[j+1] = min(j+1, far)
	}
	for i, x := range a {
		diag := row[0]
		row[0] = min(i+1, far)
		least := row[0]
		for j, y := range b {
			up := row[j+1]
			v := far
			if x == y {
				v = diag
			} else if j >= i-room && j <= i+room {
				v = min(up+1, row[j]+1, far)
			}
			diag, row[j+1] = up, v
			least = min(least, v)
		}
		if least > room {
			return far
		}
	}
	return row[len(b)]
}

// edit is how one word becomes the other by one slip.
type edit uint8

const (
	noEdit    edit = iota
	swapped        // two neighbours changed places
	doubled        // a letter doubled, or one of two left out
	inserted       // a letter more or less
	replaced       // another letter
	atStart        // any of them that touches the first letter
	atEnd          // a letter more, less or another at the end
	manyEdits      // more than one
)

// oneEdit says which single slip lies between two different words.
func oneEdit(x, y string) (edit, rune, rune) {
	a, b := []rune(x), []rune(y)
	if len(a) > len(b) || len(a) == len(b) && x > y {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	ra, rb := a[i:], b[i:]
	for len(ra) > 0 && len(rb) > 0 && ra[len(ra)-1] == rb[len(rb)-1] {
		ra, rb = ra[:len(ra)-1], rb[:len(rb)-1]
	}
	switch {
	case len(ra) == 0 && len(rb) == 0:
		return noEdit, 0, 0
	case len(ra) == 0 && len(rb) == 1:
		c := rb[0]
		if i > 0 && b[i-1] == c || i+1 < len(b) && b[i+1] == c {
			return doubled, 0, c
		}
		return place4(i, len(b), inserted), 0, c
	case len(ra) == 1 && len(rb) == 1:
		return place4(i, len(b), replaced), ra[0], rb[0]
	case len(ra) == 2 && len(rb) == 2 && ra[0] == rb[1] && ra[1] == rb[0]:
		if i == 0 {
			return atStart, ra[0], rb[0]
		}
		return swapped, ra[0], rb[0]
	}
	return manyEdits, 0, 0
}

func place4(i, length int, in edit) edit {
	switch i {
	case 0:
		return atStart
	case length - 1:
		return atEnd
	}
	return in
}

// levenshtein counts edits between two short words.
func levenshtein(x, y string) int {
	a, b := []rune(x), []rune(y)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, p := range a {
		diag := row[0]
		row[0] = i + 1
		for j, q := range b {
			up := row[j+1]
			v := diag
			if p != q {
				v = 1 + min(diag, up, row[j])
			}
			diag, row[j+1] = up, v
		}
	}
	return row[len(b)]
}

// near says cheaply whether one edit may lie between two names: neither length nor letters differ by more.
func near(a, b *Name) bool {
	diff := len(a.sorted) - len(b.sorted)
	return diff >= -4 && diff <= 4 && bits.OnesCount64(a.bag^b.bag) <= 2 // a rune is up to four bytes
}

func runes(s string) int { return utf8.RuneCountInString(s) }
