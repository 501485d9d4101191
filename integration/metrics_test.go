package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// metric is one that the code registers.
type metric struct {
	name   string
	labels []string
}

var descForm = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// registered are the metrics of our services, read from their registries: also those that have no value yet.
func (f *fleet) registered() map[string]metric {
	f.t.Helper()
	out := map[string]metric{}
	for _, m := range f.list() {
		descs := make(chan *prometheus.Desc, 1000)
		m.reg.Describe(descs)
		close(descs)
		for d := range descs {
			got := descForm.FindStringSubmatch(d.String())
			require.NotNil(f.t, got, d.String())
			x := metric{name: got[1]}
			if got[2] != "" {
				x.labels = strings.Split(got[2], ",")
			}
			out[x.name] = x
		}
	}
	return out
}

// value of a metric over the replicas of a service: the sum of what fits the labels ("k=v"), and whether there is any.
func (f *fleet) value(service, name string, labels ...string) (sum float64, there bool) {
	f.t.Helper()
	for _, m := range f.list() {
		if m.name != service {
			continue
		}
		families, err := m.reg.Gather()
		require.NoError(f.t, err)
		for _, fam := range families {
			for _, x := range fam.GetMetric() {
				var have []string
				for _, l := range x.GetLabel() {
					have = append(have, l.GetName()+"="+l.GetValue())
				}
				if fam.GetName() == name && subset(labels, have) {
					there = true
					sum += x.GetCounter().GetValue() + x.GetGauge().GetValue() + float64(x.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return sum, there
}

// TestMetricNames: factmill_<service>_<what>_<unit|total>, and no ids in labels.
func TestMetricNames(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	form := regexp.MustCompile(`^factmill_(` + strings.Join(stages, "|") + `)_[a-z]+(_[a-z]+)*$`)
	labels := []string{"outcome", "class", "stream", "state", "kind", "reason", "code", "how", "of", "verdict", "content", "decision", "list", "graph", "sink", "stage"}
	all := f.registered()
	require.Greater(t, len(all), 60)
	for name, m := range all {
		require.Regexp(t, form, name)
		for _, l := range m.labels {
			require.Contains(t, labels, l, name)
		}
	}
}

// TestMetricsTell what waits, what failed and what room there is.
func TestMetricsTell(t *testing.T) {
	dir := t.TempDir()
	f := newFleet(t, fleetOptions{Roots: []string{dir}})
	tells := func(service, name string, want float64, labels ...string) {
		t.Helper()
		var got float64
		testkit.AwaitFor(t, 30*time.Second, name+" "+strings.Join(labels, " "), func() bool {
			v, there := f.value(service, name, labels...)
			got = v
			return there && v == want
		})
		require.Equal(t, want, got)
	}
	for _, n := range []string{"a.txt", "b.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, n), []byte("Grace Hopper of "+n+" worked for Acme Ltd."), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.dat"), []byte{0, 1, 2, 3}, 0o600))
	f.await("g", f.publish("g", map[string]any{"sources": []string{dir}, "error_policy": "quarantine"}), api.JobCommitted)
	tells("committer", "factmill_committer_quarantine_records", 1)
	tells("committer", "factmill_committer_commit_seconds", 1)
	tells("committer", "factmill_committer_documents_total", 2)
	tells("committer", "factmill_committer_jobs_ended_total", 1, "state=committed")
	tells("loader", "factmill_loader_faults_total", 1, "class=document")
	tells("chunker", "factmill_chunker_in_flight", 0)
	tells("chunker", "factmill_chunker_lag_messages", 0, "stream=FACTMILL_LOADED")
	testkit.AwaitFor(t, 30*time.Second, "the store's size", func() bool {
		n, _ := f.value("committer", "factmill_committer_store_bytes")
		free, _ := f.value("committer", "factmill_committer_store_free_bytes")
		return n > 1000 && free > 1000
	})
	f.await("g", f.publish("g", map[string]any{"key": "held", "text": "Ada Lovelace worked for Orva.", "hold": true}), api.JobHeld)
	tells("committer", "factmill_committer_jobs", 1, "state=held")
	tells("committer", "factmill_committer_review_items", 1, "kind=job")
	testkit.AwaitFor(t, 30*time.Second, "the age of the held job", func() bool {
		age, _ := f.value("committer", "factmill_committer_held_oldest_seconds")
		return age > 0
	})

	// Without a chunker its messages wait; what nobody can read is parked.
	i := slices.IndexFunc(f.list(), func(m *member) bool { return m.name == "chunker" })
	require.NoError(t, f.list()[i].stop())
	_, err := f.conn.JS.Publish(t.Context(), "factmill.g.doc.extracted.j.d", []byte("no JSON"))
	require.NoError(t, err)
	tells("committer", "factmill_committer_dead_letters", 1)
	tells("resolver", "factmill_resolver_messages_total", 1, "outcome=dead")
	f.publish("g", map[string]any{"key": "waits", "text": "Bob Miller worked for Orva."})
	tells("committer", "factmill_committer_waiting_messages", 1, "stage=chunker")
	testkit.AwaitFor(t, 30*time.Second, "a message before the chunker", func() bool { return f.messages("FACTMILL_LOADED") == 1 })
	require.NoError(t, f.replace(i, false))
	f.await("g", "j3", api.JobCommitted)
}
