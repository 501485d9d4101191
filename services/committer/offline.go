package committer

import (
	"context"
	"errors"
	"log/slog"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// StoreFormat is the format of the stores that this program writes. It opens older ones, which it brings forward, and refuses newer ones.
const StoreFormat = store.Format

// FormatOf is the format of the store of a data directory that no process works on, without opening it; 0 where there is none. ErrInUse: a process does.
func FormatOf(cfg Config) (uint64, error) {
	return store.FormatOf(store.Options{Dir: cfg.WithDefaults().Dir})
}

// VerifyDir opens the store of a data directory that no process works on, as the committer does (an older format is brought forward, of which
// log is told), and checks every key of every graph. said is called before each.
func VerifyDir(ctx context.Context, cfg Config, log *slog.Logger, said func(graph string)) (out map[string]api.VerifyReply, err error) {
	st, err := store.Open(ctx, store.Options{Dir: cfg.WithDefaults().Dir, CacheBytes: cfg.CacheBytes, Log: log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	out = map[string]api.VerifyReply{}
	for _, g := range st.Graphs() {
		said(g)
		r, err := st.Verify(ctx, g, nil)
		if err != nil {
			return out, err
		}
		r.Checked["audit"], err = (audit.Trail{Store: st, Graph: g}).Verify(ctx, func(p api.Problem) {
			if r.Total++; len(r.Problems) < store.MaxProblems {
				r.Problems = append(r.Problems, p)
			}
		})
		if err != nil {
			return out, err
		}
		out[g] = r
	}
	return out, nil
}
