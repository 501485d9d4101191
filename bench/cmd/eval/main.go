// Command eval prints precision, recall and F1 of the embedded extractor on a gold set.
//
//	eval [-schema FILE] [-misses] GOLD.jsonl
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"github.com/factmill/factmill/bench/eval"
	"github.com/factmill/factmill/pkg/schema"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "eval:", err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("schema", "", "schema file; default: the default schema")
	misses := flag.Bool("misses", false, "list what was missed and what was found too much")
	flag.Parse()
	if flag.NArg() != 1 {
		return fmt.Errorf("give one gold set")
	}
	s := schema.Default()
	if *file != "" {
		b, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		if s, err = schema.Parse(b, *file, func(p string) ([]byte, error) { return os.ReadFile(filepath.Join(filepath.Dir(*file), p)) }); err != nil {
			return err
		}
	}
	f, err := os.Open(flag.Arg(0))
	if err != nil {
		return err
	}
	defer f.Close()
	items, err := eval.Read(f)
	if err != nil {
		return err
	}
	score, err := eval.Run(context.Background(), items, s)
	if err != nil {
		return err
	}
	if *misses {
		sort.Strings(score.Misses)
		sort.Strings(score.Extras)
		for _, m := range score.Misses {
			fmt.Println("missed  ", m)
		}
		for _, m := range score.Extras {
			fmt.Println("too much", m)
		}
	}
	return score.Print(os.Stdout)
}
