package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// script runs the files of testdata. Every file has a store of its own. Commands:
//
//	add key=K [order=N] [date=D] [title=T] [schema=F] [ext=F|none] [job=J] [nocandidates]   a document in the notation of fixture
//	describe key=K [date=D] [title=T]    metadata alone
//	same key=K · delete key=K            no_op and delete
//	decide key=… state=…                 a decision on a candidate key
//	commit · abort                       end the commit that the first of those began
//	reopen · dump [seq=N] · rows · versions key=K · outbox · verify
type script struct {
	t   *testing.T
	o   Options
	s   *Store
	txn *Txn
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		x := &script{t: t, o: options(vfs.NewMem())}
		x.open()
		datadriven.RunTest(t, path, x.run)
		if x.txn != nil {
			require.NoError(t, x.txn.Abort())
		}
		require.NoError(t, x.s.Close())
	})
}

func (x *script) open() {
	s, err := Open(x.t.Context(), x.o)
	require.NoError(x.t, err)
	x.s = s
	s.Graph(g, true)
}

func (x *script) begin() *Txn {
	if x.txn == nil {
		txn, err := x.s.Begin(x.t.Context(), g)
		require.NoError(x.t, err)
		x.txn = txn
	}
	return x.txn
}

func arg(d *datadriven.TestData, name, fallback string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return strings.Join(a.Vals, ",")
		}
	}
	return fallback
}

func (x *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "add", "describe", "same", "delete":
		return x.apply(d)
	case "decide":
		n, err := x.begin().Decide(t.Context(), arg(d, "key", ""), arg(d, "state", ""))
		return say(fmt.Sprintf("%d records", n), err)
	case "commit":
		done, err := x.begin().Finish(t.Context(), nil)
		x.txn = nil
		return say(fmt.Sprintf("seq %d", done.Seq), err)
	case "abort":
		err := x.begin().Abort()
		x.txn = nil
		return say("ok", err)
	case "reopen":
		require.NoError(t, x.s.Close())
		x.open()
		return ""
	case "dump":
		var seq uint64
		d.MaybeScanArgs(t, "seq", &seq)
		return dumpOpen(t, x.s, seq)
	case "rows":
		var b strings.Builder
		for _, k := range allKeys(t, x.s) {
			v, closer, err := x.s.db.Get([]byte(k))
			require.NoError(t, err)
			if len(v) == 0 {
				fmt.Fprintf(&b, "%s gone\n", rowName(k))
			} else {
				fmt.Fprintln(&b, rowName(k))
			}
			require.NoError(t, closer.Close())
		}
		return b.String()
	case "versions":
		return x.versions(arg(d, "key", ""))
	case "outbox":
		return x.outbox()
	case "verify":
		verified(t, x.s)
		return "ok"
	}
	return "unknown command " + d.Cmd
}

func say(ok string, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return ok
}

func (x *script) apply(d *datadriven.TestData) string {
	k := arg(d, "key", "")
	c := DocChange{Meta: graph.Meta{Key: k}, Job: "j1"}
	switch d.Cmd {
	case "add":
		var err error
		if c, err = fixture(k, d.Input); err != nil {
			return "error: " + err.Error()
		}
		c.SchemaFP = arg(d, "schema", c.SchemaFP)
		c.Job = arg(d, "job", "j1")
		if c.ExtractionFP = arg(d, "ext", c.ExtractionFP); c.ExtractionFP == "none" {
			c.ExtractionFP = ""
		}
		c.NoCandidates = d.HasArg("nocandidates")
		c.Symmetric = func(typ string) bool { return typ == "MARRIED_TO" }
	case "describe":
		c.Decision = graph.MetadataOnly
	case "same":
		c.Decision = graph.NoOp
	case "delete":
		c.Decision = graph.Delete
	}
	c.Meta.Title, c.Meta.ContentDate = arg(d, "title", ""), arg(d, "date", "")
	d.MaybeScanArgs(x.t, "order", &c.Order.Time)
	r, err := x.begin().Apply(x.t.Context(), c)
	if err != nil {
		return "error: " + err.Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s version=%d", r.Outcome, r.Version)
	for _, n := range []struct {
		name string
		n    int
	}{{"entities created", r.EntitiesCreated}, {"entities updated", r.EntitiesUpdated}, {"entities removed", r.EntitiesRemoved},
		{"relations created", r.RelationsCreated}, {"relations joined", r.RelationsJoined}, {"relations removed", r.RelationsRemoved},
		{"conflicts", r.Conflicts}, {"candidates", r.CandidatesWritten}, {"suppressed", r.CandidatesSuppressed}} {
		if n.n != 0 {
			fmt.Fprintf(&b, ", %d %s", n.n, n.name)
		}
	}
	b.WriteByte('\n')
	for _, f := range r.Removed {
		fmt.Fprintf(&b, "  removed %s\n", f)
	}
	return b.String()
}

func (x *script) versions(k string) string {
	sn, err := x.s.Snapshot(g, 0)
	require.NoError(x.t, err)
	defer sn.Close()
	d, ok, err := sn.DocByKey(k)
	require.NoError(x.t, err)
	if !ok {
		return "unknown"
	}
	vs, err := sn.Versions(d.Meta.ID)
	require.NoError(x.t, err)
	var b strings.Builder
	fmt.Fprintf(&b, "open=%t version=%d revision=%d order=%d ext=%q\n", d.Open, d.Version, d.Revision, d.Order.Time, d.ExtractionFP)
	for _, v := range vs {
		text, _, err := sn.Text(d.Meta.ID, v.Version)
		require.NoError(x.t, err)
		st, _, err := sn.Assertions(d.Meta.ID, v.Version)
		require.NoError(x.t, err)
		fmt.Fprintf(&b, "%d: from %d to %d, %q, %d entities\n", v.Version, v.FromSeq, v.ClosedSeq, text, len(st.Entities))
	}
	return b.String()
}

// outbox lists and removes what waits to be published.
func (x *script) outbox() string {
	rows, err := x.s.Outbox(g, 0, 0)
	require.NoError(x.t, err)
	var b strings.Builder
	for _, r := range rows {
		e, err := r.Event()
		require.NoError(x.t, err)
		fmt.Fprintf(&b, "%s", strings.TrimPrefix(r.Subject, "factmill."+g+"."))
		switch e := e.(type) {
		case *events.CandidateEvent:
			fmt.Fprintf(&b, " no=%d", e.No)
			for _, i := range e.Items {
				fmt.Fprintf(&b, " %s(%s %q %s)", i.Key, i.Document, i.Quote, i.State)
			}
		case *events.Change:
			fmt.Fprintf(&b, " %d/%d documents=%v upserted=%d removed=%d", e.Part, e.Parts, e.Documents, len(e.Upserted), len(e.Removed))
		}
		b.WriteByte('\n')
		require.NoError(x.t, x.s.OutboxDone(g, r.No))
	}
	return b.String()
}
