// Command resolution prints precision, recall and F1 of linking names, on a set of name pairs.
//
//	resolution [-misses] PAIRS.jsonl
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
	if *misses {
		for _, l := range r.Wrong {
			fmt.Println("wrong ", l)
		}
		for _, l := range r.Missed {
			fmt.Println("missed", l)
		}
	}
	return r.Print(os.Stdout)
}
