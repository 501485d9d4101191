package linkage

import "slices"

// vetoes are what no tier may link.
func vetoes(a, b *Name) (Verdict, bool) {
	if a.codes != b.codes && (a.concat != b.concat || a.digits != b.digits) && !acronymOf(a, b) && !acronymOf(b, a) {
		return veto(Numbers), true
	}
	if a.gen != "" && b.gen != "" && a.gen != b.gen {
		return veto(Generation), true
	}
	if a.marks != b.marks {
		return veto(Marks), true
	}
	if a.gender != 0 && b.gender != 0 && a.gender != b.gender {
		return veto(Title), true
	}
	if len(a.quals) > 0 && len(b.quals) > 0 && !qualsAgree(a.quals, b.quals) {
		return veto(Qualifier), true
	}
	if a.letters != "" && b.letters != "" && a.letters != b.letters && a.concat != b.concat || a.concat != b.concat && contrasting(a, b) {
		return veto(Contrast), true
	}
	if len(a.capitals) > 0 && len(b.capitals) > 0 && capitalsDiffer(a, b) {
		return veto(Marks), true
	}
	return Verdict{}, false
}

func contains(sorted []string, s string) bool {
	if len(sorted) == 0 {
		return false
	}
	_, ok := slices.BinarySearch(sorted, s)
	return ok
}

// qualsAgree: one list of qualifiers begins with the other (Boston, Massachusetts and Boston, Massachusetts, USA).
func qualsAgree(a, b []string) bool {
	k := min(len(a), len(b))
	return slices.Equal(a[:k], b[:k])
}

func contrasting(a, b *Name) bool {
	for _, x := range a.contrast {
		for _, y := range b.contrast {
			if x.set == y.set && x.value != y.value && !slices.Contains(b.contrast, x) && !slices.Contains(a.contrast, y) {
				return true
			}
		}
	}
	return false
}

// capitalsDiffer: two acronyms of one edit's difference in names that are otherwise the same (HTTP Working Group, HTTPS
// Working Group).
func capitalsDiffer(a, b *Name) bool {
	x, y, ok := differing(a.tokens, b.tokens)
	return ok && slices.Contains(a.capitals, x) && slices.Contains(b.capitals, y)
}
