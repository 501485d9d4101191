// Package graphs keeps what belongs to a graph besides its facts: the history of its schemas and its pipeline settings.
package graphs

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/committer/internal/jobs"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/registry"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Spaces of the store that belong to this package.
const (
	spaceSchema   = byte('H') // revision, big endian → schemaRow
	spaceSettings = byte('Z') // "pipeline" → settingsRow; "schema" → active revision
)

var (
	keyPipeline = []byte("pipeline")
	keyActive   = []byte("schema")
)

type settingsRow struct {
	Revision uint64            `json:"revision"`
	Pipeline settings.Pipeline `json:"pipeline"`
}

// Graphs answers schema.* and settings.*, and gives new jobs their context.
type Graphs struct {
	st  *store.Store
	ops *operations.Operations
	now func() time.Time

	mu     sync.Mutex // one change at a time; guards parsed
	parsed map[parsedKey]*schema.Schema

	// Settings are asked for at every name that is compared: they are read once, until they are put.
	kept     sync.Mutex
	pipeline map[string]settingsRow // guarded by kept
	puts     uint64                 // changes of a row, begun and ended; guarded by kept
}

// New makes the desk of graphs over st.
func New(st *store.Store, now func() time.Time) *Graphs {
	return &Graphs{st: st, ops: operations.New(st), now: now, parsed: map[parsedKey]*schema.Schema{}, pipeline: map[string]settingsRow{}}
}

// Create makes a graph with the default schema and settings where it does not exist. Callers hold mu.
func (g *Graphs) create(ctx context.Context, name string) error {
	b, err := g.st.Get(name, spaceSettings, keyActive)
	if err != nil || b != nil {
		return err
	}
	if err := events.CheckGraph(name); err != nil {
		return api.Errorf(400, "bad_name", "%v", err)
	}
	if _, ok := g.st.Graph(name, true); !ok {
		return fmt.Errorf("graph %s cannot be made: the store does not take writes", name)
	}
	row := api.SchemaReply{Revision: 1, PutAt: g.stamp(), Actor: "factmill"}
	ops, err := schemaOps(name, row, schema.Default())
	if err != nil {
		return err
	}
	p, err := json.Marshal(settingsRow{Revision: 1, Pipeline: settings.Default()})
	if err != nil {
		return fmt.Errorf("settings of %s: %w", name, err)
	}
	ops = append(ops, store.Op{Graph: name, Space: spaceSettings, Key: keyPipeline, Value: p})
	return g.st.Write(ctx, ops, true)
}

// Ensure makes a graph with the default schema and settings where it does not exist.
func (g *Graphs) Ensure(ctx context.Context, name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.create(ctx, name)
}

func (g *Graphs) stamp() string { return g.now().UTC().Format(time.RFC3339Nano) }

func revKey(rev uint64) []byte { return binary.BigEndian.AppendUint64(nil, rev) }

func schemaOps(graph string, row api.SchemaReply, s *schema.Schema) ([]store.Op, error) {
	body := s.Marshal()
	row.Name, row.Version, row.Fingerprint, row.Schema = s.Name(), s.Version(), s.Fingerprint(), body
	b, err := json.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", graph, err)
	}
	return []store.Op{
		{Graph: graph, Space: spaceSchema, Key: revKey(row.Revision), Value: b},
		{Graph: graph, Space: spaceSettings, Key: keyActive, Value: revKey(row.Revision)},
	}, nil
}

// active is the graph's active schema revision; 0 when the graph does not exist.
func (g *Graphs) active(name string) (uint64, error) {
	b, err := g.st.Get(name, spaceSettings, keyActive)
	if err != nil || b == nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("active schema of %s: bad row", name)
	}
	return binary.BigEndian.Uint64(b), nil
}

// Revision is the graph's active schema revision; 0 when the graph does not exist.
func (g *Graphs) Revision(name string) (uint64, error) { return g.active(name) }

// SchemaGet answers schema.get. A graph that does not exist yet answers with the default schema, revision 0.
func (g *Graphs) SchemaGet(_ context.Context, name string, req api.SchemaGet) (api.SchemaReply, error) {
	active, err := g.active(name)
	if err != nil {
		return api.SchemaReply{}, err
	}
	rev := req.Revision
	if rev == 0 {
		rev = active
	}
	if active == 0 {
		if req.Revision != 0 {
			return api.SchemaReply{}, api.Errorf(404, "schema_not_found", "graph %s has no schema revision %d", name, req.Revision)
		}
		s := schema.Default()
		return api.SchemaReply{Active: true, Name: s.Name(), Version: s.Version(), Fingerprint: s.Fingerprint(), Schema: s.Marshal()}, nil
	}
	b, err := g.st.Get(name, spaceSchema, revKey(rev))
	if err != nil {
		return api.SchemaReply{}, err
	}
	if b == nil {
		return api.SchemaReply{}, api.Errorf(404, "schema_not_found", "graph %s has no schema revision %d", name, rev)
	}
	var row api.SchemaReply
	if err := json.Unmarshal(b, &row); err != nil {
		return row, fmt.Errorf("schema revision %d of %s: %w", rev, name, err)
	}
	row.Active = rev == active
	return row, nil
}

// Schema returns a parsed revision; 0 is the active one.
func (g *Graphs) Schema(name string, rev uint64) (*schema.Schema, error) {
	if rev == 0 {
		active, err := g.active(name)
		if err != nil {
			return nil, err
		}
		if rev = active; rev == 0 {
			return schema.Default(), nil
		}
	}
	if s := g.known(name, rev); s != nil {
		return s, nil
	}
	row, err := g.SchemaGet(context.Background(), name, api.SchemaGet{Revision: rev})
	if err != nil {
		return nil, err
	}
	s, err := schema.Parse(row.Schema, row.Name, nil)
	if err != nil {
		return nil, fmt.Errorf("schema revision %d of %s: %w", row.Revision, name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.parsed) > 256 {
		clear(g.parsed)
	}
	if row.Revision > 0 {
		g.parsed[parsedKey{name, row.Revision}] = s
	}
	return s, nil
}

// parsedKey names a revision, which never changes.
type parsedKey struct {
	graph    string
	revision uint64
}

func (g *Graphs) known(name string, rev uint64) *schema.Schema {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.parsed[parsedKey{name, rev}]
}

// SchemaHistory answers schema.history.
func (g *Graphs) SchemaHistory(_ context.Context, name string) (api.SchemaHistoryReply, error) {
	reply := api.SchemaHistoryReply{Schemas: []api.SchemaReply{}}
	active, err := g.active(name)
	if err != nil || active == 0 {
		return reply, err
	}
	err = g.st.Scan(name, spaceSchema, nil, nil, 0, func(_, v []byte) error {
		var row api.SchemaReply
		if err := json.Unmarshal(v, &row); err != nil {
			return fmt.Errorf("schema history of %s: %w", name, err)
		}
		row.Schema, row.Source, row.Active = nil, "", row.Revision == active
		reply.Schemas = append([]api.SchemaReply{row}, reply.Schemas...)
		return nil
	})
	const most = 500
	if len(reply.Schemas) > most {
		reply.Schemas = reply.Schemas[:most]
	}
	return reply, err
}

// maxSchema is the most bytes a schema may have: its row and its reply must fit one message.
const maxSchema = 256 << 10

// SchemaPut answers schema.put: the same schema as the active one changes nothing.
func (g *Graphs) SchemaPut(ctx context.Context, name string, req api.SchemaPut) (api.SchemaReply, error) {
	if len(req.Schema) > maxSchema || len(req.Source) > maxSchema {
		return api.SchemaReply{}, api.Errorf(413, "too_large", "the schema is larger than %d bytes", maxSchema)
	}
	s, err := schema.Parse([]byte(req.Schema), req.Name, nil)
	if err != nil {
		return api.SchemaReply{}, schemaError(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.create(ctx, name); err != nil {
		return api.SchemaReply{}, err
	}
	var reply api.SchemaReply
	err = g.ops.Once(ctx, name, "schema.put", req.RequestID, req, &reply, func() ([]store.Op, error) {
		now, err := g.SchemaGet(ctx, name, api.SchemaGet{})
		if err != nil {
			return nil, err
		}
		reply = now
		same, err := isEffective(now, s)
		if err != nil {
			return nil, fmt.Errorf("schema revision %d of %s: %w", now.Revision, name, err)
		}
		if same {
			return nil, nil
		}
		reply = api.SchemaReply{Revision: now.Revision + 1, PutAt: g.stamp(), Actor: req.Actor, Source: req.Source}
		if reply.Seq, err = g.st.Seq(name); err != nil {
			return nil, err
		}
		for _, w := range s.Warnings() {
			reply.Warnings = append(reply.Warnings, w.String())
		}
		ops, err := schemaOps(name, reply, s)
		if err != nil {
			return nil, err
		}
		reply.Name, reply.Version, reply.Fingerprint = s.Name(), s.Version(), s.Fingerprint()
		reply.Schema, reply.Active, reply.Changed, reply.Source = s.Marshal(), true, true, ""
		return ops, nil
	})
	return reply, err
}

// isEffective says whether a stored schema is s, whatever files they came from. The row's bytes say nothing: JSON in JSON is
// escaped anew (an arrow becomes \u003e).
func isEffective(row api.SchemaReply, s *schema.Schema) (bool, error) {
	now, err := schema.Parse(row.Schema, row.Name, nil)
	if err != nil {
		return false, err
	}
	return now.Equal(s), nil
}

func schemaError(err error) error {
	var se *schema.Error
	if !errors.As(err, &se) {
		return api.Errorf(400, "schema_invalid", "%v", err)
	}
	e := api.Errorf(400, "schema_invalid", "the schema has %d problems", len(se.Problems))
	list := make([]map[string]string, 0, len(se.Problems))
	for _, p := range se.Problems {
		list = append(list, map[string]string{"path": p.Path, "message": p.Message})
	}
	e.Details = map[string]any{"problems": list}
	return e
}

// SettingsGet answers settings.get.
func (g *Graphs) SettingsGet(_ context.Context, name string) (api.SettingsReply, error) {
	row, err := g.settings(name)
	return api.SettingsReply{Revision: row.Revision, Settings: row.Pipeline.Flat()}, err
}

func (g *Graphs) settings(name string) (settingsRow, error) {
	g.kept.Lock()
	row, ok := g.pipeline[name]
	puts := g.puts
	g.kept.Unlock()
	if ok {
		return row, nil
	}
	row, stored, err := g.storedSettings(name)
	if err != nil || !stored {
		return row, err
	}
	g.kept.Lock()
	defer g.kept.Unlock()
	if g.puts == puts { // else it may be what was before
		g.pipeline[name] = row
	}
	return row, nil
}

// forget has the settings of a graph read anew.
func (g *Graphs) forget(name string) {
	g.kept.Lock()
	defer g.kept.Unlock()
	g.puts++
	delete(g.pipeline, name)
}

// Changed says that rows of a graph may have changed beneath: in a read replica.
func (g *Graphs) Changed(name string) { g.forget(name) }

func (g *Graphs) storedSettings(name string) (row settingsRow, stored bool, err error) {
	row = settingsRow{Pipeline: settings.Default()}
	b, err := g.st.Get(name, spaceSettings, keyPipeline)
	if err != nil || b == nil {
		return row, false, err
	}
	err = json.Unmarshal(b, &row)
	if err != nil {
		return row, false, fmt.Errorf("settings of %s: %w", name, err)
	}
	return row, true, nil
}

// Settings returns the pipeline settings of a graph.
func (g *Graphs) Settings(name string) (settings.Pipeline, error) {
	row, err := g.settings(name)
	return row.Pipeline, err
}

// SettingsPut answers settings.put.
func (g *Graphs) SettingsPut(ctx context.Context, name string, req api.SettingsPut) (api.SettingsReply, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.create(ctx, name); err != nil {
		return api.SettingsReply{}, err
	}
	g.forget(name) // nothing that is read from here on is kept before it is written
	defer g.forget(name)
	var reply api.SettingsReply
	err := g.ops.Once(ctx, name, "settings.put", req.RequestID, req, &reply, func() ([]store.Op, error) {
		row, err := g.settings(name)
		if err != nil {
			return nil, err
		}
		next, err := row.Pipeline.Apply(req.Settings)
		if err == nil {
			err = next.Complete()
		}
		if err != nil {
			return nil, api.Errorf(400, "settings_invalid", "%v", err)
		}
		reply = api.SettingsReply{Revision: row.Revision, Settings: next.Flat(), Changed: settings.Diff(row.Pipeline, next)}
		if len(reply.Changed) == 0 {
			return nil, nil
		}
		reply.Revision++
		b, err := json.Marshal(settingsRow{Revision: reply.Revision, Pipeline: next})
		if err != nil {
			return nil, fmt.Errorf("settings of %s: %w", name, err)
		}
		return []store.Op{{Graph: name, Space: spaceSettings, Key: keyPipeline, Value: b}}, nil
	})
	return reply, err
}

// JobContext gives a new job the active schema and settings, and creates the graph at its first job.
func (g *Graphs) JobContext(name string) (jobs.Context, error) {
	g.mu.Lock()
	err := g.create(context.Background(), name)
	g.mu.Unlock()
	if err != nil {
		return jobs.Context{}, fmt.Errorf("graph %s: %w", name, err)
	}
	active, err := g.active(name)
	if err != nil {
		return jobs.Context{}, err
	}
	s, err := g.Schema(name, active)
	if err != nil {
		return jobs.Context{}, err
	}
	row, err := g.settings(name)
	if err != nil {
		return jobs.Context{}, err
	}
	known, knownFP, err := registry.Revision(g.st, name)
	if err != nil {
		return jobs.Context{}, err
	}
	return jobs.Context{
		Job: events.Job{
			SchemaRevision: active, SchemaFP: s.Fingerprint(), RegistryRevision: known, RegistryFP: knownFP, Settings: row.Pipeline,
			ChunkerFP: row.Pipeline.ChunkerFingerprint(), ExtractionFP: row.Pipeline.ExtractionFingerprint(s),
		},
		SchemaName: s.Name(), SchemaVer: s.Version(),
	}, nil
}
