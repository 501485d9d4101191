// Command eval prints precision, recall and F1 of the embedded extractor on a gold set.
//
//	eval [-schema FILE] [-docs DIR] [-compare] [-misses] GOLD.jsonl
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
	docs := flag.String("docs", "", "directory of the gold set's files, where it names documents")
	compare := flag.Bool("compare", false, "read with and without the schema's rules: section, and print both")
	misses := flag.Bool("misses", false, "list what was missed and what was found too much")
	flag.Parse()
	if flag.NArg() != 1 {
		return fmt.Errorf("give one gold set")
	}
	s, err := load(*file)
	if err != nil {
		return err
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
	ctx := context.Background()
	score, err := eval.Run(ctx, items, s, *docs)
	if err != nil {
		return err
	}
	if *misses {
		list(score)
	}
	if !*compare {
		return score.Print(os.Stdout)
	}
	bare, err := eval.Without(s)
	if err != nil {
		return err
	}
	without, err := eval.Run(ctx, items, bare, *docs)
	if err != nil {
		return err
	}
	return score.Compare(os.Stdout, without)
}

// load reads a schema file, or gives the default schema.
func load(file string) (*schema.Schema, error) {
	if file == "" {
		return schema.Default(), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return schema.Parse(b, file, func(p string) ([]byte, error) { return os.ReadFile(filepath.FromSlash(p)) })
}

func list(score *eval.Score) {
	sort.Strings(score.Misses)
	sort.Strings(score.Extras)
	for _, m := range score.Misses {
		fmt.Println("missed  ", m)
	}
	for _, m := range score.Extras {
		fmt.Println("too much", m)
	}
}
