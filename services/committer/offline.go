package committer

import (
	"context"
	"errors"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// VerifyDir opens the store of a data directory that no process works on, as the committer does, and checks every key of every graph. said is
// called before each.
func VerifyDir(ctx context.Context, cfg Config, said func(graph string)) (out map[string]api.VerifyReply, err error) {
	st, err := store.Open(ctx, store.Options{Dir: cfg.WithDefaults().Dir, CacheBytes: cfg.CacheBytes})
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
