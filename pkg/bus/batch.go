package bus

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/failpoint"
	"github.com/factmill/factmill/pkg/fault"
)

// batcher gathers messages and handles them together.
func (r *runner) batcher(stop <-chan struct{}) {
	var over *item // did not fit into the last batch
	for {
		items := r.gather(stop, over)
		if len(items) == 0 {
			return
		}
		over = nil
		if n := r.fit(items); n < len(items) {
			over = items[n]
			items = items[:n]
		}
		select {
		case <-stop:
			if over != nil {
				items = append(items, over)
			}
			for _, it := range items {
				r.pump.back(it, 0)
			}
			return
		default:
		}
		r.many(items)
	}
}

// gather waits for a message, and then a moment for more. It returns none when the runner stops.
func (r *runner) gather(stop <-chan struct{}, first *item) []*item {
	var items []*item
	bytes := 0
	add := func(it *item) bool {
		items = append(items, it)
		bytes += weight(it)
		return len(items) < r.cfg.MaxBatch && bytes < r.cfg.BatchBytes
	}
	if first == nil {
		select {
		case <-stop:
			return nil
		case first = <-r.pump.queue:
		}
	}
	if !add(first) {
		return items
	}
	t := time.NewTimer(r.cfg.BatchWait)
	defer t.Stop()
	for {
		select {
		case it := <-r.pump.queue:
			if !add(it) {
				return items
			}
			continue
		default:
		}
		select {
		case <-stop:
			return items
		case it := <-r.pump.queue:
			if !add(it) {
				return items
			}
		case <-t.C:
			return items
		}
	}
}

// fit says how many of the items stay within the bytes of a batch: all, or all but the last.
func (r *runner) fit(items []*item) int {
	bytes := 0
	for _, it := range items {
		bytes += weight(it)
	}
	if n := len(items); n > 1 && bytes > r.cfg.BatchBytes {
		return n - 1
	}
	return len(items)
}

// weight is the size of a message's body, wherever that is.
func weight(it *item) int {
	if refOf(it.msg.Header) != "" {
		return int(refSize(it.msg.Header))
	}
	return len(it.msg.Data)
}

// many handles a batch: decode, call, publish all outputs together, answer each.
func (r *runner) many(items []*item) {
	tasks := r.takeAll(items)
	if len(tasks) == 0 {
		return
	}
	defer func() {
		for _, t := range tasks {
			r.release(t)
		}
	}()
	failpoint.Hit(r.points.received)
	results, ok := r.callBatch(tasks)
	if !ok {
		return
	}
	failpoint.Hit(r.points.computed)
	var out []events.Event
	var traces []string // of each of out
	for i := range results {
		if results[i].Err != nil {
			continue
		}
		for _, e := range results[i].Out {
			out, traces = append(out, e), append(traces, r.trace(tasks[i], e))
		}
	}
	if err := r.conn.publishTraced(r.pub, r.cfg.Service, out, func(i int) string { return traces[i] }); err != nil {
		// One of them may be at fault: each for itself.
		for i, t := range tasks {
			r.settle(t, results[i].Out, results[i].Err)
		}
		return
	}
	failpoint.Hit(r.points.published)
	for i, t := range tasks {
		r.answer(t, results[i].Err)
	}
}

// takeAll decodes on all processors, and keeps the order.
func (r *runner) takeAll(items []*item) []*task {
	all := make([]*task, len(items))
	n := min(runtime.GOMAXPROCS(0), (len(items)+7)/8)
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() {
			for i := w; i < len(items); i += n {
				if t, ok := r.take(items[i]); ok {
					all[i] = t
				}
			}
		})
	}
	wg.Wait()
	out := all[:0]
	for _, t := range all {
		if t != nil {
			out = append(out, t)
		}
	}
	return out
}

// callBatch calls the handler, again for the whole batch while all of it says that a dependency is down.
func (r *runner) callBatch(tasks []*task) ([]Result, bool) {
	in := make([]Delivery, len(tasks))
	for i, t := range tasks {
		in[i] = t.in
	}
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		start := time.Now()
		res, err := r.guardBatch(tasks, in)
		r.metrics.took(time.Since(start))
		if err == nil && len(res) != len(in) {
			err = fault.Fatal("bad_batch", "the handler gave %d results for %d messages", len(res), len(in))
		}
		if err != nil {
			r.apart(tasks, err)
			return nil, false
		}
		down := r.allDown(res)
		if down == nil {
			r.cfg.Status.hinder(r.name, "down", "")
			return res, true
		}
		if !r.pause(fault.Of(down), down, pause) {
			for _, t := range tasks {
				r.handBack(t, 0, down)
			}
			return nil, false
		}
	}
}

func (r *runner) allDown(res []Result) error {
	for i := range res {
		f := fault.Of(res[i].Err)
		if res[i].Err == nil || !f.Pause || f.Class != fault.Transient {
			return nil
		}
	}
	return res[0].Err
}

// apart answers a batch that panicked. One message may be to blame: all are handed back, alone they would be told apart by their
// attempts, so a batch of one is parked like any other panic.
func (r *runner) apart(tasks []*task, err error) {
	if len(tasks) == 1 {
		r.answer(tasks[0], err)
		return
	}
	for _, t := range tasks {
		if r.work.Err() != nil {
			r.handBack(t, 0, err)
			continue
		}
		res, one := r.guardBatch([]*task{t}, []Delivery{t.in})
		if one == nil && len(res) != 1 {
			one = fault.Fatal("bad_batch", "the handler gave %d results for one message", len(res))
		}
		if one != nil {
			r.answer(t, one)
			continue
		}
		r.settle(t, res[0].Out, res[0].Err)
	}
}

func (r *runner) guardBatch(tasks []*task, in []Delivery) (res []Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = r.panicked(tasks[0], p)
			if len(tasks) > 1 {
				err = fault.Retry("panic", 0, fmt.Errorf("the handler panicked over %d messages: %v", len(tasks), p))
			}
		}
	}()
	return r.batch.HandleBatch(tasks[0].ctx, in), nil
}
