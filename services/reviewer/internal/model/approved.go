package model

import "github.com/factmill/factmill/pkg/api"

// unknownID is why an id names no record: none of it was ever, or a later reading replaced it.
const unknownID = "unknown id"

// Approved returns the approved records, all or those of ids, in no order; of ids that are none, it says why.
func (g *Graph) Approved(ids []string) (records []api.Record, why map[string]string) {
	why = make(map[string]string, len(ids))
	for _, id := range ids {
		why[id] = unknownID
	}
	for _, r := range g.records {
		if _, asked := why[r.ID]; !asked && ids != nil {
			continue
		}
		if r.State != api.StateApproved {
			if ids != nil {
				why[r.ID] = "is " + r.State
			}
			continue
		}
		delete(why, r.ID)
		records = append(records, *r)
	}
	return records, why
}
