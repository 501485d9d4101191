package audit

import (
	"context"
	"errors"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Commit ends a transaction in which people decided: the records are appended to the trail and told, fill takes them into the reply, and
// the rows that remember then gives, the request's memory, are written in the same commit. Without records the transaction is aborted, and
// only those rows are written. It says whether there was a commit; after an error the transaction is the caller's to abort.
func (t Trail) Commit(ctx context.Context, txn *store.Txn, records []events.Audit, fill func(), remember func() ([]store.Op, error)) (committed bool, err error) {
	if len(records) == 0 {
		rows, err := remember()
		if err := errors.Join(err, txn.Abort()); err != nil || len(rows) == 0 {
			return false, err
		}
		return false, t.Store.Write(ctx, rows, true)
	}
	ops, err := t.Append(records)
	if err != nil {
		return false, err
	}
	for i := range records {
		if err := txn.Emit(&records[i]); err != nil {
			return false, err
		}
	}
	fill()
	rows, err := remember()
	if err != nil {
		return false, err
	}
	_, err = txn.Finish(ctx, append(ops, rows...))
	return err == nil, err
}
