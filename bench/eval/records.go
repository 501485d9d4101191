package eval

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/pkg/linkage"
)

// Record is a record of a person, and which person it is of.
type Record struct {
	Person string // records of one person have the same
	Name   string // given name and surname; one of them, or both, may be missing
	Born   string // YYYYMMDD; may be missing, and wrong
}

// recordID is an id of the FEBRL sets: the original and its duplicates have one number.
var recordID = regexp.MustCompile(`^rec-(\d+)-(org|dup-\d+)$`)

// ReadRecords reads a CSV file with the columns rec_id, given_name, surname and date_of_birth.
func ReadRecords(r io.Reader) ([]Record, error) {
	in := csv.NewReader(r)
	in.TrimLeadingSpace, in.ReuseRecord = true, true
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("records, first line: %w", err)
	}
	column := map[string]int{}
	for i, h := range head {
		column[strings.TrimSpace(h)] = i
	}
	for _, c := range []string{"rec_id", "given_name", "surname", "date_of_birth"} {
		if _, ok := column[c]; !ok {
			return nil, fmt.Errorf("records, first line: there is no column %s", c)
		}
	}
	var out []Record
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("records: %w", err)
		}
		cell := func(c string) string { return strings.TrimSpace(row[column[c]]) }
		id := recordID.FindStringSubmatch(cell("rec_id"))
		if id == nil {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("records, line %d: the id %q says not whose it is: rec-NUMBER-org or rec-NUMBER-dup-NUMBER is needed", line, cell("rec_id"))
		}
		out = append(out, Record{Person: id[1], Name: strings.TrimSpace(cell("given_name") + " " + cell("surname")), Born: cell("date_of_birth")})
	}
}

// RecordSets are the files of the FEBRL sets, by set. The two files of set 4 are read as one.
var RecordSets = [][]string{{"dataset1.csv"}, {"dataset2.csv"}, {"dataset3.csv"}, {"dataset4a.csv", "dataset4b.csv"}}

// ReadRecordSet reads the files of one set in dir.
func ReadRecordSet(dir string, files []string) ([]Record, error) {
	var out []Record
	for _, name := range files {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		one, err := ReadRecords(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, one...)
	}
	return out, nil
}

// The ways of linking records that are compared. Those with a date look at a second field of the record, which factmill does not do by itself.
const (
	recordExact   = "exact names"
	recordMethods = "methods"
	recordCosine  = "methods + cosine"
	recordTaken   = "… − other date of birth"
	recordHelped  = "… + unclear, same date"
	recordDated   = "date of birth in the name"
)

// RecordWays are the ways of linking records, from the simplest on.
var RecordWays = []string{recordExact, recordMethods, recordCosine, recordTaken, recordHelped, recordDated}

// RecordTally of one way: pairs of records that it links, and those that it leaves to a person.
type RecordTally struct {
	Count
	Unclear, UnclearSame int
	Compared             int // pairs of distinct names that were looked at
}

// Records is how well the records of a set are linked. Every pair of records counts.
type Records struct {
	Records, Names int // Names: distinct ones, folded
	Nameless       int // records without any name: nothing can be found about them
	Gold           int // pairs of records of one person
	Vetoed         int // of these, pairs whose names exclude each other
	ByWay          map[string]*RecordTally
}

// RunRecords links the records in every way. Pairs of names are those that share a blocking key, with a cosine also those near each other.
func RunRecords(ctx context.Context, records []Record, e embed.Embedder) (*Records, error) {
	r := &Records{Records: len(records), ByWay: map[string]*RecordTally{}}
	persons := map[string][]*linkage.Name{}
	for _, x := range records {
		n := linkage.Prepare("Person", x.Name, nil)
		for _, o := range persons[x.Person] {
			r.Gold++
			if linkage.Compare(o, &n, linkage.Options{}).Outcome == linkage.Vetoed {
				r.Vetoed++
			}
		}
		persons[x.Person] = append(persons[x.Person], &n)
		if x.Name == "" {
			r.Nameless++
		}
	}
	for _, way := range RecordWays {
		r.ByWay[way] = &RecordTally{Count: Count{Gold: r.Gold}}
	}
	names := group(records, func(x Record) string { return x.Name })
	r.Names = len(names)
	link, drop := e.Thresholds()
	err := eachPair(ctx, names, e, func(p namePair) {
		cosine := p.methods.WithCosine(p.cosine, link, drop)
		exact := p.methods.Method == linkage.Exact
		if !exact {
			if p.shares {
				r.ByWay[recordMethods].Compared++
			}
			for _, way := range []string{recordCosine, recordTaken, recordHelped} {
				r.ByWay[way].Compared++
			}
		}
		p.eachRecord(func(a, b Record) {
			same := a.Person == b.Person
			if exact {
				r.ByWay[recordExact].add(linkage.Link, same)
			}
			if p.shares {
				r.ByWay[recordMethods].add(p.methods.Outcome, same)
			}
			r.ByWay[recordCosine].add(cosine.Outcome, same)
			o := cosine.Outcome
			if o == linkage.Link && bornApart(a, b) {
				o = linkage.None
			}
			r.ByWay[recordTaken].add(o, same)
			if o == linkage.Unclear {
				switch {
				case a.Born != "" && a.Born == b.Born:
					o = linkage.Link
				case bornApart(a, b):
					o = linkage.None
				}
			}
			r.ByWay[recordHelped].add(o, same)
		})
	})
	if err != nil {
		return nil, err
	}
	dated := group(records, func(x Record) string {
		if x.Name == "" || x.Born == "" {
			return x.Name
		}
		return x.Name + ", " + x.Born
	})
	t := r.ByWay[recordDated]
	return r, eachPair(ctx, dated, e, func(p namePair) {
		if p.methods.Method != linkage.Exact {
			t.Compared++
		}
		o := p.methods.WithCosine(p.cosine, link, drop).Outcome
		p.eachRecord(func(a, b Record) { t.add(o, a.Person == b.Person) })
	})
}

// bornApart: both dates are there and differ.
func bornApart(a, b Record) bool { return a.Born != "" && b.Born != "" && a.Born != b.Born }

func (t *RecordTally) add(o linkage.Outcome, same bool) {
	one := 0
	if same {
		one = 1
	}
	switch o {
	case linkage.Link:
		t.Found++
		t.Right += one
	case linkage.Unclear:
		t.Unclear++
		t.UnclearSame += one
	}
}

// named is a distinct name, and the records that have it: one entity.
type named struct {
	name    linkage.Name
	text    string
	records []Record
}

// group makes entities of records: one for each folded name, in the order of their first records.
func group(records []Record, name func(Record) string) []*named {
	var out []*named
	at := map[string]*named{}
	for _, x := range records {
		text := name(x)
		if text == "" {
			continue
		}
		n := linkage.Prepare("Person", text, nil)
		g := at[n.Key()]
		if g == nil {
			g = &named{name: n, text: text}
			at[n.Key()] = g
			out = append(out, g)
		}
		g.records = append(g.records, x)
	}
	return out
}

// namePair is two names that are looked at, or one and itself (a verdict of exact).
type namePair struct {
	a, b    *named
	shares  bool // a blocking key
	methods linkage.Verdict
	cosine  float64
}

func (p namePair) eachRecord(fn func(a, b Record)) {
	for i, a := range p.a.records {
		others := p.b.records
		if p.a == p.b {
			others = others[i+1:]
		}
		for _, b := range others {
			fn(a, b)
		}
	}
}

// eachPair files the names one by one and gives fn each with those filed before that share a blocking key with it or are so near that a
// cosine does not drop them; each also with itself.
func eachPair(ctx context.Context, names []*named, e embed.Embedder, fn func(namePair)) error {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = n.text
	}
	vectors, err := e.Embed(ctx, texts)
	if err != nil {
		return fmt.Errorf("%d names: %w", len(names), err)
	}
	_, drop := e.Thresholds()
	filed := map[string][]int{}
	for i, n := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		fn(namePair{n, n, true, linkage.Verdict{Method: linkage.Exact, Score: 1, Outcome: linkage.Link}, 1})
		shared := map[int]bool{}
		for _, k := range linkage.Probes(&n.name) {
			for _, j := range filed[k] {
				shared[j] = true
			}
		}
		for j, o := range names[:i] {
			cosine := embed.Cosine(vectors[i], vectors[j])
			if shared[j] || cosine >= drop {
				fn(namePair{n, o, shared[j], linkage.Compare(&n.name, &o.name, linkage.Options{}), cosine})
			}
		}
		for _, k := range linkage.Blocks(&n.name) {
			filed[k] = append(filed[k], i)
		}
	}
	return nil
}

// Print writes the table of one set.
func (r *Records) Print(w io.Writer, set string) error {
	p := &printer{w: w}
	pairs := r.Records * (r.Records - 1) / 2
	p.line("\n%s: %d records, %d without a name; %d distinct names; %d of %d pairs of records are of one person", set, r.Records, r.Nameless, r.Names, r.Gold, pairs)
	p.line("%-26s %8s %6s %6s   %5s  %5s  %5s   %7s %6s", "way", "compared", "links", "right", "P", "R", "F1", "unclear", "(same)")
	for _, way := range RecordWays {
		t := r.ByWay[way]
		p.line("%-26s %8d %6d %6d   %.3f  %.3f  %.3f   %7d %6d", way, t.Compared, t.Found, t.Right, t.Precision(), t.Recall(), t.F1(), t.Unclear, t.UnclearSame)
	}
	t := r.ByWay[recordCosine]
	p.line("of the %d pairs of one person that %s leaves apart %d are unclear, in %d the names exclude each other, in the others nothing speaks for the names",
		r.Gold-t.Right, recordCosine, t.UnclearSame, r.Vetoed)
	return p.err
}

// PrintRecords measures the sets in dir and writes a table for each; when they are not there it says so.
func PrintRecords(ctx context.Context, w io.Writer, dir string, e embed.Embedder) error {
	first := filepath.Join(dir, RecordSets[0][0])
	if _, err := os.Stat(first); errors.Is(err, fs.ErrNotExist) {
		_, err := fmt.Fprintf(w, "\nNOT MEASURED: records of persons, for there is no %s: make real/febrl fetches them\n", first)
		return err
	}
	p := &printer{w: w}
	p.line("\nrecords of persons in %s, label Person, name = given name and surname. compared: pairs of distinct names; links, right, unclear: pairs of records", dir)
	for i, files := range RecordSets {
		records, err := ReadRecordSet(dir, files)
		if err != nil {
			return fmt.Errorf("records in %s: %w; make real/febrl fetches them", dir, err)
		}
		r, err := RunRecords(ctx, records, e)
		if err != nil {
			return err
		}
		if p.err == nil {
			p.err = r.Print(w, fmt.Sprintf("set %d", i+1))
		}
	}
	return p.err
}
