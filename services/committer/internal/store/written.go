package store

// Written counts what a commit writes: rows with something in them, rows that remove others, and about how many bytes.
type Written struct {
	Rows    int
	Removed int
	Bytes   int64
}

// rowExtra is about what a row takes in a batch besides its key and value: the sequence, the lengths, the check sum.
const rowExtra = tailLen + 8

// Written is what the commit wrote so far and what it holds in memory, to be said in a row of the commit itself: call it when every
// document is applied. What Finish adds (the change events, its own ops) is not in it.
func (t *Txn) Written() (Written, error) {
	if err := t.lock(); err != nil {
		return Written{}, err
	}
	defer t.unlock()
	if err := t.emitFolds(); err != nil {
		return Written{}, err
	}
	w := Written{Rows: t.written - t.removed, Removed: t.removed, Bytes: t.bytes}
	add := func(key, value int) {
		w.Bytes += int64(key + value + rowExtra)
		w.Rows++
	}
	for k, v := range t.rows {
		add(len(k), len(v))
		if len(v) == 0 {
			w.Rows, w.Removed = w.Rows-1, w.Removed+1
		}
	}
	list := func(term, size int) {
		for ; size > postingPart; size -= postingPart {
			add(term+16, postingPart)
		}
		add(term+16, size)
	}
	err := t.post.Each(func(term string, data []byte) error {
		list(len(term), len(data))
		return nil
	})
	for term, ids := range t.names {
		list(len(term), len(ids))
	}
	for fed := len(t.fed); fed > 0; fed -= feedPart * (1 + idLen) {
		add(headLen+12, min(fed, feedPart*(1+idLen))+len(t.job))
	}
	for fed := len(t.candFed); fed > 0; fed -= feedPart * idLen {
		add(headLen+12, min(fed, feedPart*idLen))
	}
	for _, e := range t.events {
		add(16, len(e))
	}
	for _, p := range t.cands { // events that Finish makes of what is gathered
		if len(p.items) > 0 {
			add(16, p.size)
		}
	}
	add(headLen, 256) // the counts
	return w, err
}
