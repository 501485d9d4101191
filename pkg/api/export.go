package api

import "encoding/json"

// ExportRows puts the rows of an export's pages together. The zero value is ready for the first page.
type ExportRows struct{ part []byte }

// Add returns the rows that page completes, in order. They are valid until the next call.
func (x *ExportRows) Add(page ExportReply) []json.RawMessage {
	if page.Part == "" {
		return page.Rows
	}
	x.part = append(x.part, page.Part...)
	if !page.Last {
		return nil
	}
	row := json.RawMessage(x.part)
	x.part = nil
	return []json.RawMessage{row}
}
