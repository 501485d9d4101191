package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/labels"
)

// piece is one record of a result: its text, ends with a line break, and its JSON.
type piece struct {
	text     string
	data     any
	evidence []string
}

// page is a result under way.
type page struct {
	k    *Kit
	at   cursor
	seq  uint64
	head []string // lines before the records
	// more of the result's data, beside the records
	data map[string]any
	all  []piece
	// limit of records a page; 0: as many as fit
	limit int
	// whole shows all records, whatever their size: they are few and short.
	whole bool
	// beyond says that there is more behind the last of all.
	beyond bool
}

func (p *page) add(x piece) { p.all = append(p.all, x) }

func (p *page) say(format string, args ...any) { p.head = append(p.head, fmt.Sprintf(format, args...)) }

// strangers says, of an empty result, which types that the call names the schema does not have. The types of the schema are nobody's text.
func (k *Kit) strangers(ctx context.Context, p *page, names []labels.Named) {
	if len(p.all) > 0 {
		return
	}
	for _, why := range labels.Unknown(ctx, k.ask.Ask, names) {
		p.say("Note: %s", plain(cutAt(why, 300)))
	}
}

// limits says in words what the tools are limited to; empty when to nothing. What it names is the operator's.
func (k *Kit) limits() string {
	if k.within == nil {
		return ""
	}
	return "Limited to " + plain(cutAt(k.within.String(), 1000)) + "."
}

// result puts together what fits, at least one record.
func (p *page) result(none string) Result {
	var b strings.Builder
	line := func(s string) {
		if s != "" {
			b.WriteString(s + "\n")
		}
	}
	line(p.k.limits())
	for _, h := range p.head {
		line(h)
	}
	rest := p.all[min(p.at.Skip, len(p.all)):]
	switch {
	case len(p.all) == 0:
		if p.k.within != nil {
			none += " What is outside these limits is answered like what does not exist."
		}
		line(none)
	case len(rest) == 0:
		line("There is nothing behind this cursor any more.")
	default:
		line(Notice)
	}
	r := Result{}
	results := []any{}
	seen := map[string]bool{}
	given := 0
	for _, x := range rest {
		if given > 0 && !p.whole && (p.limit > 0 && given == p.limit || b.Len()+len(x.text) > p.k.bytes) {
			break
		}
		fmt.Fprintf(&b, "\n%d. %s", p.at.Skip+given+1, x.text)
		results = append(results, x.data)
		for _, id := range x.evidence {
			if id != "" && !seen[id] {
				seen[id] = true
				r.Evidence = append(r.Evidence, id)
			}
		}
		given++
	}
	data := map[string]any{"seq": p.seq, "notice": Notice, "results": results}
	for k, v := range p.data {
		data[k] = v
	}
	if l := p.k.limits(); l != "" {
		data["limits"] = p.k.within
	}
	if given < len(rest) || p.beyond && len(rest) > 0 {
		next := p.at
		next.Skip += given
		r.Next = next.String()
		data["next_cursor"] = r.Next
		fmt.Fprintf(&b, "\nThere is more: call again with the same arguments and cursor %s\n", r.Next)
	}
	r.Text, r.Data = b.String(), data
	return r
}
