// Command resolution prints precision, recall and F1 of linking names, on a set of name pairs.
//
//	resolution [-misses] [-judge URL -judge-model MODEL] [-records DIR] PAIRS.jsonl
//
// What the last way leaves unclear is also put before two judges that need no model, one that knows and one that throws a coin, and before
// a model when its server is given. With -records the records of persons that make real/febrl fetches are linked, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/factmill/factmill/bench/eval"
	"github.com/factmill/factmill/pkg/embed"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "resolution:", err)
		os.Exit(1)
	}
}

func run() error {
	misses := flag.Bool("misses", false, "list what was linked wrongly and what was not linked")
	url := flag.String("judge", "", "`URL` of a model server that the unclear pairs are put before")
	model := flag.String("judge-model", "", "the judge's model there")
	records := flag.String("records", "", "`directory` of the data sets of make real/febrl, which are measured as well; says so when it is not there")
	flag.Parse()
	if flag.NArg() != 1 {
		return fmt.Errorf("give one file of name pairs")
	}
	f, err := os.Open(flag.Arg(0))
	if err != nil {
		return err
	}
	defer f.Close()
	pairs, err := eval.ReadPairs(f)
	if err != nil {
		return err
	}
	r, err := eval.RunResolution(context.Background(), pairs, embed.NewHash())
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, j := range []struct {
		way string
		ask eval.Judge
	}{{"+ a judge at random", eval.AtRandom}, {"+ a perfect judge", eval.Perfect}} {
		if err := r.AddJudge(ctx, j.way, j.ask); err != nil {
			return err
		}
	}
	if *url != "" {
		j, err := newAsked(*url, *model)
		if err != nil {
			return err
		}
		defer j.judge.Close()
		if err := r.AddJudge(ctx, "+ "+*model, j.ask); err != nil {
			return err
		}
		defer j.print(os.Stdout)
	}
	if *misses {
		for _, l := range r.Wrong {
			fmt.Println("wrong ", l)
		}
		for _, l := range r.Missed {
			fmt.Println("missed", l)
		}
	}
	if err := r.Print(os.Stdout); err != nil || *records == "" {
		return err
	}
	return eval.PrintRecords(ctx, os.Stdout, *records, embed.NewHash())
}
