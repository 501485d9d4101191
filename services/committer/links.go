package committer

import (
	"context"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/links"
)

// judgeLimit is how long the judge may take over one question: several model calls. One that was killed over it never answers.
const judgeLimit = 5 * time.Minute

// judge asks the resolvers.
type judge struct{ conn *bus.Conn }

// Judge implements links.Judge.
func (j judge) Judge(ctx context.Context, graph string, req api.JudgeRequest) (reply api.JudgeReply, err error) {
	ctx, cancel := context.WithTimeout(ctx, judgeLimit)
	defer cancel()
	return reply, j.conn.Request(ctx, events.Root+"."+graph+".match.judge", req, &reply)
}

// through waits until the names of a committed job are compared, and the policy decided its candidates.
func (s *Service) through(ctx context.Context, st api.JobStatus) (api.JobStatus, error) {
	if st.State == api.JobCommitted && st.CommitSeq > 0 {
		s.links.Wait(ctx, st.Graph, st.Job, st.CommitSeq)
		if s.cfg.PolicyOff {
			return s.linked(st)
		}
		if err := s.policy.Wait(ctx, st.Graph, st.CommitSeq); err != nil && ctx.Err() == nil { // it is tried again, and the job is committed
			s.log.Debug("the policy is behind", "graph", st.Graph, "job", st.Job, "error", err)
		}
	}
	return s.linked(st)
}

// behindLimit is how long a request waits for what follows its commit.
const behindLimit = 5 * time.Second

// behind waits, for a while, until the names of a commit are compared and have their vectors, and returns what hinders that.
func (s *Service) behind(ctx context.Context, graph string, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, behindLimit)
	defer cancel()
	if at := s.links.Wait(ctx, graph, "", seq); at.Linked < seq {
		return at.Err
	}
	return nil
}

// linked adds to a job what was found behind its commits, and what of that is still to come.
func (s *Service) linked(st api.JobStatus) (api.JobStatus, error) {
	if st.CommitSeq == 0 {
		return st, nil
	}
	n, err := s.links.Stats(st.Graph, st.Job)
	if err != nil {
		return st, err
	}
	links.Add(&st.Stages.Resolution, n)
	at := s.links.Status(st.Graph, st.Job)
	st.Stages.Resolution.LLMLeft = at.Postponed
	p := api.Progress{Stage: api.StageLinker, Waiting: at.Waiting}
	switch {
	case at.Linked < st.CommitSeq:
		p.Waiting += int(st.CommitSeq - at.Linked)
		if at.Err != nil {
			p.Why = at.Err.Error()
		}
	case at.Waiting > 0 && at.JudgeErr != nil:
		p.Why = at.JudgeErr.Error()
	}
	if p.Waiting > 0 {
		st.Progress = append(st.Progress, p)
	}
	return st, nil
}

// ambiguous says whether the registry knows several entities by a name.
func (s *Service) ambiguous(graph, label, key string) (bool, error) {
	all, err := s.known.Ambiguous(graph, label, key)
	return len(all) > 1, err
}
