package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/factmill/factmill/bench/under"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

const firmsPerPerson = 100

// guesses are documents and a schema under which each of n sentences is a candidate of its own: a guess is below the relation's cut.
func guesses(n int) (schema string, documents []events.InputDocument, err error) {
	name := func(first string, i int) string {
		return first + string(rune('a'+i/26)) + string(rune('a'+i%26)) + "ron"
	}
	var who, where []string
	for i := range (n + firmsPerPerson - 1) / firmsPerPerson {
		who = append(who, name("B", i))
	}
	for i := range min(n, firmsPerPerson) {
		where = append(where, name("G", i))
	}
	if len(who) > 26*26 {
		return "", nil, fmt.Errorf("%d candidates are too many: at most %d", n, 26*26*firmsPerPerson)
	}
	left := n
	for _, p := range who {
		var b strings.Builder
		for _, f := range where[:min(left, len(where))] {
			fmt.Fprintf(&b, "Perhaps %s will work for %s. ", p, f)
		}
		left -= min(left, len(where))
		documents = append(documents, events.InputDocument{Key: p, Text: b.String()})
	}
	schema = fmt.Sprintf("name: staff\nentities: {Person: {}, Organization: {}}\nrelations: {WORKS_FOR: {patterns: ['Person->Organization']}}\n"+
		"rules: {entities: {Person: {names: [%s]}, Organization: {names: [%s]}}, relations: {WORKS_FOR: {phrases: [works for]}}}",
		strings.Join(who, ", "), strings.Join(where, ", "))
	return schema, documents, nil
}

func review(fs *flag.FlagSet) func(context.Context, *room) error {
	small := fs.Int("small", 1_000, "candidates in the small queue")
	large := fs.Int("large", 10_000, "candidates in the large one")
	lists := fs.Int("lists", 300, "lists that are asked for")
	single := fs.Int("single", 50, "decisions about one candidate, one after another")
	return func(ctx context.Context, r *room) error {
		var took [2]reviewed
		for i, n := range []int{*small, *large} {
			var err error
			if took[i], err = reviewOf(ctx, r, n, *lists, *single); err != nil {
				return err
			}
		}
		note := fmt.Sprintf("%d candidates to %d", *large, *small)
		growth := func(what string, of func(reviewed) time.Duration, most float64) {
			r.report.AtMost(what+", growth", "×", of(took[1]).Seconds()/of(took[0]).Seconds(), most, note)
		}
		growth("list", func(t reviewed) time.Duration { return t.list }, 3)
		growth("one decision", func(t reviewed) time.Duration { return t.one }, 3)
		growth("a candidate of a query", func(t reviewed) time.Duration { return t.each }, 1.5)
		return nil
	}
}

// reviewed is what reviewing took: a list and a decision about one candidate in the middle, and a candidate of those that one query decided.
type reviewed struct{ list, one, each time.Duration }

func reviewOf(ctx context.Context, r *room, n, lists, single int) (took reviewed, err error) {
	schema, documents, err := guesses(n)
	if err != nil {
		return took, err
	}
	f, err := under.Start(ctx, under.Options{Bin: r.bin, Dir: r.dir("factmill")})
	if err != nil {
		return took, err
	}
	defer func() {
		_, errStop := f.Stop()
		err = errors.Join(err, errStop)
	}()
	r.say("loading %d candidates", n)
	if err := f.Ask(ctx, "schema.put", api.SchemaPut{Schema: schema, Name: "staff"}, nil); err != nil {
		return took, fmt.Errorf("put the schema: %w", err)
	}
	event, err := json.Marshal(events.Ingest{Documents: documents})
	if err != nil {
		return took, err
	}
	if _, _, err := f.Do(ctx, event); err != nil {
		return took, err
	}
	var l api.ReviewListReply
	page := 50
	if err := f.Ask(ctx, "review.list", api.ReviewList{Limit: &page}, &l); err != nil {
		return took, err
	}
	if l.Total != n {
		return took, fmt.Errorf("%d candidates wait, not %d", l.Total, n)
	}
	name := func(s string) string { return fmt.Sprintf("%d candidates, %s", n, s) }

	r.say("%s", name("lists"))
	var waits times
	for range lists {
		begin := time.Now()
		if err := f.Ask(ctx, "review.list", api.ReviewList{Limit: &page}, nil); err != nil {
			return took, fmt.Errorf("list: %w", err)
		}
		waits = append(waits, time.Since(begin))
	}
	slices.Sort(waits)
	took.list = waits.at(0.5)
	r.report.Add(name("list of 50"), "ms", took.list.Seconds()*1000, fmt.Sprintf("median; p95 %.2f ms", waits.at(0.95).Seconds()*1000))

	r.say("%s", name("decisions"))
	var ones times
	for _, g := range l.Groups[:min(single, len(l.Groups))] {
		begin := time.Now()
		var d api.DecideReply
		if err := f.Ask(ctx, "review.reject", api.ReviewDecide{Keys: []string{g.Key}, Actor: "bench"}, &d); err != nil {
			return took, fmt.Errorf("reject %s: %w", g.Key, err)
		}
		if d.Outcome.ChangedTotal != 1 {
			return took, fmt.Errorf("a decision about %s changed %d candidates", g.Key, d.Outcome.ChangedTotal)
		}
		ones = append(ones, time.Since(begin))
	}
	slices.Sort(ones)
	took.one = ones.at(0.5)
	r.report.Add(name("one decision"), "ms", took.one.Seconds()*1000, fmt.Sprintf("median of %d; p95 %.2f ms; each is synced", len(ones), ones.at(0.95).Seconds()*1000))

	long, stop := context.WithTimeout(ctx, time.Hour) // else a request has the time of a short one
	defer stop()
	left := n - len(ones)
	for _, q := range []struct{ verb, state string }{{"approve", api.StatePending}, {"reject", api.StateApproved}} {
		r.say("%s", name(q.verb+" by query"))
		state, err := json.Marshal(q.state)
		if err != nil {
			return took, err
		}
		begin := time.Now()
		var d api.DecideReply
		if err := f.Ask(long, "review."+q.verb, api.ReviewDecide{Query: &api.ReviewList{Kinds: []string{"relation"}, State: state}, Actor: "bench"}, &d); err != nil {
			return took, fmt.Errorf("%s by query: %w", q.verb, err)
		}
		if d.Outcome.ChangedTotal != left {
			return took, fmt.Errorf("a query decided %d of %d candidates", d.Outcome.ChangedTotal, left)
		}
		if each := time.Since(begin) / time.Duration(left); took.each == 0 || each < took.each {
			took.each = each
		}
	}
	r.report.Add(name("decided by one query"), "candidates/s", 1/took.each.Seconds(), fmt.Sprintf("the better of approving and rejecting %d; in %.2f s", left, took.each.Seconds()*float64(left)))
	return took, nil
}
