package reviewer

import (
	"context"

	"github.com/factmill/factmill/pkg/api"
)

// policy says what a review policy would do about all that waits. The committer reads its queue for it, and writes nothing.
func (d *desk) policy(ctx context.Context, graphName string, body []byte) (any, error) {
	var req api.ReviewPolicy
	if e := api.Read(body, &req); e != nil {
		return nil, e
	}
	return d.committer.Policy(ctx, graphName, req)
}

// Policy reads the whole queue, which takes its time.
func (r remote) Policy(ctx context.Context, graph string, req api.ReviewPolicy) (reply api.ReviewPolicyReply, err error) {
	err = r.conn.Request(ctx, verb(graph, "candidates.policy"), req, &reply)
	return reply, err
}
