package extractor

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/llm"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/hybrid"
	"github.com/factmill/factmill/services/extractor/internal/model"
	"github.com/factmill/factmill/services/extractor/internal/replies"
	"github.com/factmill/factmill/services/extractor/internal/rules"
)

// models is what the modes that ask a model share: the server, its slots, and the kept replies.
type models struct {
	asker  *model.Asker
	memory *replies.Store
	gate   bus.Gate
	// slow: the last document asks a model, so that another is taken only when little waits for a slot.
	slow    atomic.Bool
	backlog atomic.Int64
	slots   int64
	hand    *hand
	// probed is what the model server said last while nothing moved; nil: it was not asked.
	probed atomic.Pointer[string]
}

// newModels makes them. Without a connection no reply is kept and no token counted.
func newModels(cfg Config, deps app.Deps) (*models, error) {
	c, err := llm.NewClient(cfg.ModelURL, cfg.ModelTimeout)
	if err != nil {
		return nil, app.Misconfigured(err)
	}
	m := &models{slots: int64(cfg.Slots), hand: newHand(deps.Conn, deps.Log)}
	m.slow.Store(true) // until the first document tells
	m.asker = &model.Asker{Client: c, Log: deps.Log, Replies: replies.None{}, Budget: unbounded{}}
	m.asker.Slots = llm.NewSlots(cfg.Slots, func(n int) {
		m.backlog.Store(int64(n))
		m.hold()
	}).Within(deps.ModelCalls).At(deps.Now)
	if deps.Conn != nil {
		if m.memory, err = replies.New(deps.Conn, cfg.ReplyMemory); err != nil {
			return nil, err
		}
		m.asker.Replies, m.asker.Budget = m.memory, deps.Conn
	}
	return m, nil
}

func (m *models) close() {
	m.asker.Client.Close()
	if m.memory != nil {
		m.memory.Close()
	}
}

// takes says what kind of document is being read.
func (m *models) takes(set settings.Extractor) {
	m.slow.Store(set.Asks())
	m.hold()
}

// hold tells the runner whether it may pull another document: while fewer chunks wait than there are slots, since all calls may end at
// once.
func (m *models) hold() {
	slow := m.slow.Load()
	m.gate.Hold(slow, slow && m.backlog.Load() >= m.slots)
}

// still is how long nothing may move before health says so.
const still = 30 * time.Second

// probe asks the model server something small while nothing moves; that needs no slot.
func (m *models) probe(ctx context.Context) {
	if m.asker.Slots.Still() < still {
		m.probed.Store(nil)
		return
	}
	said := "it answers other questions"
	if err := m.asker.Client.Alive(ctx); err != nil {
		said = "it does not answer other questions: " + err.Error()
	}
	m.probed.Store(&said)
}

// note is why an extractor that is ready stands still; empty when it does not.
func (m *models) note() string {
	if d := m.asker.Slots.Still(); d >= still {
		why := fmt.Sprintf("model_slow: all slots (%d) of the model server at %s have been taken for %s", m.slots, m.asker.Client.URL(), d.Round(time.Second))
		if said := m.probed.Load(); said != nil {
			why += "; " + *said
		}
		return why
	}
	return m.asker.Slots.Late()
}

// extractor makes the mode of a plan.
func (m *models) extractor(s *schema.Schema, set settings.Extractor, fp string) (extract.Extractor, error) {
	if set.Mode == ModeRules {
		return rules.New(s), nil
	}
	asks, err := model.New(m.asker, s, set, fp)
	if err != nil || set.Mode == ModeLLM {
		return asks, err
	}
	return hybrid.New(rules.New(s), asks, s, set), nil
}

// unbounded is the budget of a stage without a broker.
type unbounded struct{}

func (unbounded) Spend(context.Context, string, string, int) (int, error) { return 0, nil }
func (unbounded) Count(string, string, int, int) error                    { return nil }

// ModelDigest asks the model server at address which digest a model has there.
func ModelDigest(ctx context.Context, address, name string) (string, error) {
	c, err := llm.NewClient(address, time.Minute)
	if err != nil {
		return "", err
	}
	return c.Digest(ctx, name, "")
}
