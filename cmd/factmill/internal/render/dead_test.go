package render

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

func TestDeadLetters(t *testing.T) {
	var b strings.Builder
	require.NoError(t, DeadLetters(&b, api.DeadListReply{}))
	require.Equal(t, "nothing here: every message was handled, and nothing is quarantined\n", b.String())

	b.Reset()
	require.NoError(t, DeadLetters(&b, api.DeadListReply{Next: "abc", Letters: []api.DeadLetter{
		{ID: "12", Kind: "dead", Stage: "chunker", Job: "j1", JobState: "pending", Key: "a\x1bb", Code: "panic", Reason: "boom", At: "2024-05-01T12:00:00Z"},
		{ID: "q3-1", Kind: "quarantine", Stage: "loader", Job: "j2", JobState: "committed", Key: "x.dat", Code: "unsupported_format", Reason: "no",
			At: "2024-05-01T12:00:00Z", Replay: &api.ReplayJob{Job: "replay-1", State: "rolled_back"}},
	}}))
	require.Equal(t, `ID    KIND        STAGE    JOB  STATE      KEY     CODE                REASON  AT                    REPLAY
12    dead        chunker  j1   pending    a\x1bb  panic               boom    2024-05-01 12:00:00Z
q3-1  quarantine  loader   j2   committed  x.dat   unsupported_format  no      2024-05-01 12:00:00Z  replay-1 (rolled_back)
more: --cursor abc
`, b.String())
}

func TestDeadLetter(t *testing.T) {
	var b strings.Builder
	require.NoError(t, DeadLetter(&b, api.DeadShowReply{
		Letter: api.DeadLetter{ID: "12", Kind: "dead", Stage: "chunker", Job: "j1", Key: "a", Code: "panic", Reason: "boom", At: "2024-05-01T12:00:00Z",
			Subject: "factmill.g.doc.loaded.j1.x", Stream: "FACTMILL_LOADED", Seq: 7, Attempts: 3, Size: 2048, Event: "doc.loaded",
			Replay: &api.ReplayJob{Job: "replay-1", At: "2024-05-02T12:00:00Z", Reason: "why"}},
		Headers: map[string]string{"b": "2", "a": "1\x07"}, Message: json.RawMessage(`{"text":"\u001b[2J"}`), Cut: true,
	}))
	require.Equal(t, `dead letter 12
  document    a
  job         j1
  stage       chunker
  code        panic
  reason      boom
  at          2024-05-01 12:00:00Z
  event       doc.loaded
  subject     factmill.g.doc.loaded.j1.x
  message     2.0 KiB, sequence 7 of FACTMILL_LOADED, delivered 3 times
  replayed    replay-1 (not published) at 2024-05-02 12:00:00Z
              why
  header      a: 1\x07
  header      b: 2

long texts and lists are shortened; --output FILE writes the document whole

{
  "text": "\u001b[2J"
}
`, b.String())
}

func TestReplaysAndDrops(t *testing.T) {
	var b strings.Builder
	require.NoError(t, Replays(&b, api.DeadReplayReply{
		Replayed: []api.Replayed{{ID: "1", How: api.ReplayRepublished, Job: "j1"}, {ID: "q1-1", How: api.ReplayNewJob, Job: "replay-1"}},
		Skipped:  map[string]api.DeadSkip{"3": {Code: "not_replayable", Message: "no"}, "2": {Code: "busy", Message: "later"}},
	}, map[string]ReplayEnd{"replay-1": {State: "committed"}}))
	require.Equal(t, `ID    HOW          JOB       STATE      REASON
1     republished  j1
q1-1  new job      replay-1  committed
replayed 2
left as they are: 2
  2  later (busy)
  3  no (not_replayable)
`, b.String())
	b.Reset()
	require.NoError(t, Drops(&b, api.DeadDropReply{Dropped: make([]string, 1200)}))
	require.Equal(t, "dropped 1,200\n", b.String())
}
