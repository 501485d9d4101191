package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"github.com/factmill/factmill/bench/corpus"
	"github.com/factmill/factmill/bench/model"
	"github.com/factmill/factmill/bench/under"
	"github.com/factmill/factmill/pkg/api"
)

func replicas(fs *flag.FlagSet) func(context.Context, *room) error {
	n := fs.Int("n", 25, "documents a replica and slot")
	slots := fs.Int("slots", 4, "slots of the model a replica")
	return func(ctx context.Context, r *room) error {
		rates := map[int]float64{}
		for _, k := range []int{1, 2, 4, 8} {
			r.say("%d replicas", k)
			rate, err := replicasOf(ctx, r, k, *slots, *n*k**slots)
			if err != nil {
				return err
			}
			rates[k] = rate
			name, note := fmt.Sprintf("%d replicas", k), fmt.Sprintf("%.2f × one", rate/rates[1])
			r.report.Add(name, "calls/s", rate, note+fmt.Sprintf("; %d slots of 200 ms could make %d", k**slots, 5*k**slots))
		}
		r.report.AtLeast("4 replicas to one", "×", rates[4]/rates[1], 3.8, "")
		return nil
	}
}

// replicasOf returns the model calls a second of a job over n documents of one chunk each.
func replicasOf(ctx context.Context, r *room, k, slots, n int) (rate float64, err error) {
	m, err := model.Start(200 * time.Millisecond)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, m.Stop()) }()
	docs := r.dir("docs")
	if err := (corpus.Corpus{Seed: 1, Bytes: 400}).Write(docs, n); err != nil {
		return 0, err
	}
	f, err := under.Start(ctx, under.Options{Bin: r.bin, Dir: r.dir("factmill"), Replicas: 1,
		More: func(service string) int {
			if service == "extractor" {
				return k
			}
			return 1
		},
		Extra: map[string][]string{"extractor": {"--ollama.url", m.URL(), "--ollama.slots", strconv.Itoa(slots)}}})
	if err != nil {
		return 0, err
	}
	defer func() {
		_, errStop := f.Stop()
		err = errors.Join(err, errStop)
	}()
	set := api.SettingsPut{Settings: map[string]string{"extractor.mode": "llm", "ollama.model": model.Name}}
	if err := f.Ask(ctx, "settings.put", set, nil); err != nil {
		return 0, err
	}
	if _, _, err := f.Do(ctx, path(docs)); err != nil {
		return 0, err
	}
	calls, span := m.Calls()
	if calls != n {
		return 0, fmt.Errorf("%d calls for %d documents", calls, n)
	}
	return float64(calls) / span.Seconds(), nil
}
