package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// pinned is a service that was started with a setting of its own, and what it says of a graph that has another.
type pinned struct {
	service, name, value string
	says                 string // of job and graph
}

// TestAServiceWithOtherSettingsHandsItsWorkBack: the pinned process does nothing and says why in /ready and to whoever asks over NATS;
// a second process without the pin serves the job to its commit; when the graph's settings become its own, the pinned one serves too.
func TestAServiceWithOtherSettingsHandsItsWorkBack(t *testing.T) {
	for _, p := range []pinned{
		{"chunker", "chunker.size", "300", "job %s of graph default runs with chunker.size 600, this service was started with 300"},
		{"extractor", "extractor.entity_cut", "0.9", `job %s of graph default has extractor.entity_cut "0.5", this extractor is pinned to "0.9"`},
	} {
		t.Run(p.service, func(t *testing.T) {
			c := sixProcesses(t, 1)
			c.procs[p.service][0].stop(t)
			http := freeAddress(t)
			c.start(p.service, "--"+p.name, p.value, "--http.listen", http)
			require.Equal(t, readiness{true, map[string]string{p.service: "ready"}}, awaitReady(t, http, 200))

			job := c.publish("default", doc("a", "Ada Lovelace works for Acme Ltd."))
			r := awaitReady(t, http, 503)
			require.False(t, r.Ready)
			require.Contains(t, r.Services[p.service], fmt.Sprintf(p.says, job))
			require.Equal(t, api.JobPending, c.status("default", job).State)
			require.Zero(t, ask[api.StatsReply](c, "default", "query.stats", nil).Seq)

			free := c.start(p.service)
			s := c.await("default", job, api.JobCommitted)
			require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, s.Documents)
			require.Equal(t, 1, s.Attempt, "handing back is no failure")
			require.Equal(t, []string{"Organization Acme Ltd", "Person Ada Lovelace"}, sorted(c.rows("default").names()))
			require.Zero(t, s.Stages.Chunking.Total+s.Stages.Extraction.Failures.Total)

			// What it saw last is still not what it serves.
			require.Equal(t, r, awaitReady(t, http, 503))
			free.stop(t)
			ask[api.SettingsReply](c, "default", "settings.put", api.SettingsPut{Settings: map[string]string{p.name: p.value}})
			c.add("default", doc("b", "Bob Miller works for Acme Ltd."))
			require.Equal(t, map[string]string{p.service: "ready"}, awaitReady(t, http, 200).Services)
			c.sound("default")
		})
	}
}

// TestAPinnedServiceServesItsOwnGraphs: other graphs, which have the pinned settings, are served while one is not.
func TestAPinnedServiceServesItsOwnGraphs(t *testing.T) {
	c := sixProcesses(t, 1)
	c.procs["chunker"][0].stop(t)
	c.start("chunker", "--chunker.size", "300")
	ask[api.SettingsReply](c, "small", "settings.put", api.SettingsPut{Settings: map[string]string{"chunker.size": "300"}})
	waits := c.publish("default", doc("a", "Ada Lovelace works for Acme Ltd."))
	s := c.add("small", doc("a", "Ada Lovelace works for Acme Ltd."))
	require.Equal(t, 1, s.Documents.Added)
	require.Equal(t, api.JobPending, c.status("default", waits).State)
	ask[api.JobStatus](c, "default", "jobs.cancel", api.JobCancel{Job: waits, Reason: "nobody serves it"})
	c.await("default", waits, api.JobRolledBack)
	testkit.Await(t, "the ingest stream is empty", func() bool {
		i, err := c.conn.JS.Stream(t.Context(), "FACTMILL_INGEST")
		require.NoError(t, err)
		return i.CachedInfo().State.Msgs == 0
	})
}
