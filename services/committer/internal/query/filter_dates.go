package query

import (
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
)

// dates reads since and until.
func (f *filter) dates(of api.Filters) *api.Error {
	ok := true
	if of.Since != "" {
		if f.since, _, ok = covers(of.Since); !ok {
			return badValue("filters.since is %q: it must be a date (2024, 2024-05, 2024-05-31) or an RFC 3339 time", clip(of.Since))
		}
	}
	if of.Until != "" {
		if _, f.until, ok = covers(of.Until); !ok {
			return badValue("filters.until is %q: it must be a date (2024, 2024-05, 2024-05-31) or an RFC 3339 time", clip(of.Until))
		}
	}
	if of.Since != "" && of.Until != "" && f.until.Before(f.since) {
		return badValue("filters.since is %q, after until %q", clip(of.Since), clip(of.Until))
	}
	return nil
}

// covers is the first and the last moment of a date as documents have it, in UTC.
func covers(date string) (first, last time.Time, ok bool) {
	t, err := events.ParseTime(date)
	if err != nil {
		return t, t, false
	}
	switch len(date) {
	case len("2006"):
		last = t.AddDate(1, 0, 0)
	case len("2006-01"):
		last = t.AddDate(0, 1, 0)
	case len("2006-01-02"):
		last = t.AddDate(0, 0, 1)
	default:
		return t, t, true
	}
	return t, last.Add(-time.Nanosecond), true
}

// dated says whether a date may lie between since and until.
func (f *filter) dated(date string) bool {
	if f.since.IsZero() && f.until.IsZero() {
		return true
	}
	first, last, ok := covers(date)
	return ok && (f.since.IsZero() || !last.Before(f.since)) && (f.until.IsZero() || !first.After(f.until))
}
