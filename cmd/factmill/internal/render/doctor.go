package render

import (
	"io"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/doctor"
)

// Doctor shows what an examination brought.
func Doctor(w io.Writer, r doctor.Report) error {
	p := &printer{w: w}
	for _, f := range r.Findings {
		p.f("%s: %s", f.Severity, f.What)
		p.f("  why   %s", f.Why)
		p.f("  mend  %s", f.Mend)
	}
	for _, u := range r.Unchecked {
		what, why, _ := strings.Cut(u, ": ")
		p.f("not looked at: %s (%s)", what, why)
	}
	switch {
	case r.OK:
		p.f("nothing is wrong at %s: looked at %s", r.Where, strings.Join(r.Checked, ", "))
	case len(r.Checked) > 0:
		p.f("%s at %s; looked at %s", Count(len(r.Findings), "thing is wrong", "things are wrong"), r.Where, strings.Join(r.Checked, ", "))
	}
	return p.err
}
