package store

import (
	"testing"
)

func TestFirst(t *testing.T) {
	s := memStore(t)
	commit(t, s, mustFixture(t, "a", `[Person:Ada Lovelace] worked at [Org:Acme Ltd].
~
[Person:Lovelace=Ada Lovelace] left a Robot in 1842.
> 0 WORKS_FOR Person:Ada_Lovelace Org:Acme_Ltd since=1840
. 1 left=1842 Person:Ada_Lovelace
? 1 entity Machine Robot`))
	t.Log("\n" + dumpOpen(t, s, 0))
	rows, err := s.Outbox(g, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Log(r.No, r.Subject, r.ID, string(r.Body))
	}
}
