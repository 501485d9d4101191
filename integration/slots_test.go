//go:build proof

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/testkit"
	"github.com/factmill/factmill/services/extractor"
)

// passages is a document of n chunks, for a chunk size of 32.
func passages(key string, n int) map[string]any {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "# %s part %d\n\nIt rained on %s for a while, and then the wind turned round and it rained once more there.\n\n", key, i, key)
	}
	return doc(key, b.String())
}

// TestSlotsAreBusy: while there is work no slot of the model server stands idle, however many replicas share them, and never are more
// calls in flight than there are slots. On a machine that is so slow, or busy with something else, that calls in a bare loop do not reach
// the share either, that part of theirs is asked.
func TestSlotsAreBusy(t *testing.T) {
	const slots, rounds, enough, nearly = 8, 3, 0.97, 0.97
	for _, replicas := range []int{1, 4} {
		t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
			// The machine may be busy with something else: the best of a few rounds tells.
			best := 0.0
			var asked []byte
			for round := 0; round < rounds && best < enough; round++ {
				share, body := busyShare(t, replicas, slots)
				best, asked = max(best, share), body
			}
			if best < enough {
				require.GreaterOrEqual(t, best, min(enough, nearly*bareShare(t, slots, asked)))
			}
		})
	}
}

// slow is a model that takes 200 ms a call.
func slow(t *testing.T, slots int) *testkit.Model {
	return testkit.NewModel(t, testkit.ModelOptions{Slots: slots, Reply: testkit.ModelScript(testkit.ModelReply{
		Content: `{"entities":[],"relations":[]}`, Delay: 200 * time.Millisecond,
	})})
}

// bareShare is how busy the slots are when as many loops do nothing but send one of the requests.
func bareShare(t *testing.T, slots int, body []byte) float64 {
	m := slow(t, slots)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: slots}}
	defer client.CloseIdleConnections()
	var calls errgroup.Group
	calls.SetLimit(slots)
	for range 500 {
		calls.Go(func() error {
			r, err := client.Post(m.URL()+"/api/chat", "application/json", bytes.NewReader(body))
			if err != nil {
				return err
			}
			defer r.Body.Close()
			_, err = io.Copy(io.Discard, r.Body)
			return err
		})
	}
	require.NoError(t, calls.Wait())
	share := m.Busy().Share(slots)
	t.Logf("as many bare calls: busy %.1f %%", 100*share)
	return share
}

// busyShare runs a job of 500 chunks in 100 documents over replicas that have so many slots together, and returns how busy those were from
// the first call to the last, and one of the requests.
func busyShare(t *testing.T, replicas, slots int) (share float64, body []byte) {
	const docs, chunks = 100, 5
	m := slow(t, slots)
	f := asking(t, fleetOptions{Extractor: extractor.Config{Slots: slots / replicas}}, m, "g")
	for range replicas - 1 {
		f.add("extractor")
	}
	f.putSettings("g", map[string]string{"chunker.size": "32", "chunker.min_size": "1"})
	var all []map[string]any
	for i := range docs {
		all = append(all, passages(fmt.Sprintf("d%03d", i), chunks))
	}
	s := f.run("g", map[string]any{"documents": all})
	require.Equal(t, docs, s.Documents.Added)
	require.Equal(t, docs*chunks, s.Stages.Chunking.Chunks)
	require.Equal(t, docs*chunks, m.Count())
	require.LessOrEqual(t, m.MaxInFlight(), slots)
	busy := m.Busy()
	t.Logf("%d calls of 200 ms over %d replicas of %d slots: busy %.1f %% of %s; at most %d in flight", m.Count(), replicas,
		slots/replicas, 100*busy.Share(slots), busy.LastEnd.Sub(busy.FirstStart).Round(time.Millisecond), m.MaxInFlight())
	call := m.Calls()[0]
	body, err := json.Marshal(map[string]any{"model": call.Model, "messages": call.Messages, "format": call.Format, "options": call.Options, "stream": call.Stream})
	require.NoError(t, err)
	return busy.Share(slots), body
}

// TestKilledAfterNinetyEightReplies: the extractor dies by SIGKILL while the last of 99 chunks is being asked about; the next one asks for
// that one only.
func TestKilledAfterNinetyEightReplies(t *testing.T) {
	t.Parallel()
	const chunks = 99
	hang := make(chan struct{})
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: func(c testkit.ModelCall) testkit.ModelReply {
		r := testkit.ModelReply{Content: `{"entities":[],"relations":[]}`}
		if c.N == chunks {
			r.Wait = hang
		}
		return r
	}})
	c := sixProcesses(t, 1)
	c.the("extractor").stop(t)
	ask[api.SchemaReply](c, "g", "schema.put", api.SchemaPut{Schema: desk, Name: "test"})
	ask[api.SettingsReply](c, "g", "settings.put", api.SettingsPut{Settings: map[string]string{
		"extractor.mode": "llm", "ollama.model": "fake:1", "chunker.size": "32", "chunker.min_size": "1",
	}})
	first := c.start("extractor", "--ollama.url", m.URL())
	c.ready("extractor")
	job := c.publish("g", passages("d", chunks))
	m.Await(t, chunks)
	testkit.Await(t, "98 kept replies", func() bool { return c.messages(bus.StreamReplies) == chunks-1 })
	first.kill()
	close(hang)
	c.start("extractor", "--ollama.url", m.URL())
	s := c.await("g", job, api.JobCommitted)
	require.Equal(t, chunks, s.Stages.Chunking.Chunks)
	require.Equal(t, chunks+1, m.Count(), "the one that was being asked about, and no other")
	require.Equal(t, []int{chunks, chunks - 1, 0}, []int{s.Stages.Escalation.Escalated, s.Stages.Escalation.CacheHits, s.Stages.Extraction.ChunksFailed})
	require.Equal(t, m.Count(), s.Stages.Escalation.SpentRequests, "those of the killed one were paid for as well")
	c.sound("g")
	t.Logf("killed with %d of %d replies kept; after the restart %d call", chunks-1, chunks, m.Count()-chunks)
}
