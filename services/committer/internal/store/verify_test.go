package store

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// damaged opens a store with rows of every kind.
func damaged(t *testing.T) *Store {
	s := openStore(t, options(vfs.NewMem()))
	commit(t, s, mustFixture(t, "a", `[Person:Ada Lovelace] worked at [Org:Acme Ltd].
~
[Person:Lovelace=Ada Lovelace] built a Robot and a Drone in 1842.
> 0 WORKS_FOR Person:Ada_Lovelace Org:Acme_Ltd since=1840
. 1 year=1842 Person:Ada_Lovelace
. 1 year=9 Person:Ada_Lovelace
? 1 entity Machine Robot
? 1 entity Machine Drone`), mustFixture(t, "b", "gone\n? 0 entity Machine Drone"))
	txn, err := s.Begin(t.Context(), g)
	require.NoError(t, err)
	_, err = txn.Apply(t.Context(), mustFixture(t, "c", "[Org:Acme] is old."))
	require.NoError(t, err)
	pair := ordered(fixtureID(t, "Org", "acme"), fixtureID(t, "Org", "acme ltd"))
	changed, err := txn.PutMatch(Match{A: pair[0].String(), B: pair[1].String(), Method: "legal suffix", Score: 0.965, Found: MatchActive})
	require.NoError(t, err)
	require.True(t, changed)
	_, err = txn.DecideMatch(Verdict{A: pair[0].String(), B: pair[1].String(), State: MatchConfirmed})
	require.NoError(t, err)
	require.NoError(t, txn.PutRuling((*Ruling)(nil).Then(RuleChoose, "n9", []string{"n1842", "n9"}).of(entityID("Person", "ada lovelace"), "year")))
	n, err := txn.Decide(t.Context(), "entity|machine|robot", api.StateApproved)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = txn.Apply(t.Context(), DocChange{Decision: graph.Delete, Meta: graph.Meta{Key: "b"}})
	require.NoError(t, err)
	_, err = txn.Finish(t.Context(), nil)
	require.NoError(t, err)
	return s
}

// of says whose ruling it is.
func (r Ruling) of(owner, property string) Ruling {
	r.Owner, r.Property = owner, property
	return r
}

func mustJSON(tb T, v any) []byte {
	tb.Helper()
	b, err := encodeJSON(v)
	require.NoError(tb, err)
	return b
}

func fixtureID(tb T, label, key string) id {
	tb.Helper()
	v, err := mustID(entityID(label, key))
	require.NoError(tb, err)
	return v
}

// Verify names every key that is deleted, altered, or moved: one test a row of a store that has every kind.
func TestVerifyNamesDamage(t *testing.T) {
	s := damaged(t)
	reads(t, s, 1, "d", "[Person:Lin] joined [Person:Guild].\n> 0 MEMBER_OF Person:Lin Person:Guild", nil)
	reads(t, s, 1, "e", "[Person:Lin] joined [Person:Guild].\n> 0 MEMBER_OF Person:Lin Person:Guild", nil)
	reads(t, s, 2, "d", "Nobody joined.", policy(StaleReview))
	reads(t, s, 1, "f", "[Person:Ada] was born in 1815, [Person:Bo] knew her.\n~\n[Person:Ada] is young.\n. 0 born=1815 Person:Ada\n> 0 KNOWS Person:Bo Person:Ada\n> 1 KNOWS Person:Bo Person:Cy", nil)
	tell(t, s, apartRuling())
	removes(t, s, 2, "e", policy(StaleReview))
	_, items := waiting(t, s)
	require.Len(t, items, 2)
	for _, x := range items {
		if x.Gone > 0 {
			require.NoError(t, decides(t, s, func(txn *Txn) error {
				_, err := txn.DecideStale(t.Context(), x, false, Decision{Actor: "eva"})
				return err
			}))
		}
	}
	verified(t, s)
	newest := map[string]string{} // key without sequence → newest key
	spaces := map[byte]bool{}
	for _, k := range allKeys(t, s) {
		base, _, fact := splitRow([]byte(k))
		require.Equal(t, strings.IndexByte(factSpaces, k[headLen-1]) >= 0, fact, "%s", rowName(k))
		if _, ok := newest[string(base)]; !ok {
			newest[string(base)] = k
		}
		spaces[k[headLen-1]] = true
	}
	for _, space := range factSpaces + "bu>" {
		require.True(t, spaces[byte(space)], "the store has no row of space %c", space)
	}
	tried := map[byte][2]int{}
	for base, k := range newest {
		space, past := k[headLen-1], pastID(t, s, k)
		v, closer, err := s.db.Get([]byte(k))
		require.NoError(t, err)
		was := append([]byte(nil), v...)
		require.NoError(t, closer.Close())
		named := func(how string) {
			r, err := s.Verify(t.Context(), g, nil)
			require.NoError(t, err)
			want, _, _ := strings.Cut(rowName(k), "@")
			found := false
			for _, p := range r.Problems {
				got, _, _ := strings.Cut(p.Key, "@")
				// A part of a posting list is named by its term.
				if space == spacePosting {
					want, got = want[:strings.LastIndex(want, "/")], got[:max(0, strings.LastIndex(got, "/"))]
				}
				found = found || got == want && p.Kind == kinds[space]
			}
			require.True(t, found, "%s %s: %v", how, rowName(k), r.Problems)
		}
		set := func(k string, v []byte) { require.NoError(t, s.db.Set([]byte(k), v, pebble.NoSync)) }
		n := tried[space]
		if len(was) > 0 {
			changed := append([]byte(nil), was...)
			changed[len(changed)/2] ^= 1
			set(k, changed)
			named("altered")
			n[0]++
		}
		live := len(was) > 0 && space != spaceOutbox && space != spaceFeed && space != spaceCandFeed && !past
		if live {
			require.NoError(t, s.db.Delete([]byte(k), pebble.NoSync))
			named("deleted")
			n[1]++
		}
		set(k, was)
		tried[space] = n
		_ = base
	}
	for space, n := range tried {
		require.NotZero(t, n[0], "no row of space %c was altered", space)
		require.True(t, n[1] > 0 || space == spaceOutbox || space == spaceFeed || space == spaceCandFeed, "no row of space %c was deleted", space)
	}
	verified(t, s)
}

// pastID says whether a row is that of a record's former id, which nothing leads to.
func pastID(t *testing.T, s *Store, k string) bool {
	if k[headLen-1] != spaceCandID {
		return false
	}
	sn, err := s.Snapshot(g, 0)
	require.NoError(t, err)
	r := readKey([]byte(k))
	_, _, current, err := sn.CandidateByID(r.id().String())
	require.NoError(t, err)
	require.NoError(t, sn.Close())
	return !current
}

// A row that is whole by its checksum but says something else is found by what it says.
func TestVerifyNamesWrongRows(t *testing.T) {
	s := damaged(t)
	doc, err := mustID(docID("a"))
	require.NoError(t, err)
	gone, err := mustID(docID("b"))
	require.NoError(t, err)
	ada, err := mustID(entityID("Person", "ada lovelace"))
	require.NoError(t, err)
	acme, err := mustID(entityID("Org", "acme ltd"))
	require.NoError(t, err)
	var stranger id
	stranger[0] = 7
	k := func(space byte) key { return newKey(1, space) }
	pair := ordered(ada, acme)
	matchID, err := matchIDKey(1, pair)
	require.NoError(t, err)
	year, err := conflictKey(1, ada, "year")
	require.NoError(t, err)
	ruling := rulingKey(1, ada, "year")
	rulingID, err := rulingIDKey(1, ada, "year")
	require.NoError(t, err)
	ruled := Ruling{Decision: RuleKeepAll, All: true, Seq: 2}.of(ada.String(), "year")
	toldApart := Ruling{Decision: RuleDifferent, Apart: true, Label: "Person", Key: "ada lovelace", Seq: 2}
	evidence, err := encodeEvidence(&EvidenceSupport{Version: 1, Spans: []EvidenceSpan{{End: 1}}})
	require.NoError(t, err)
	for _, c := range []struct {
		key  key
		v    []byte
		want string
	}{
		{k(spaceMention).id(ada).id(gone), encodeMentions(&MentionSupport{Version: 1}), "does not state it"},
		{k(spaceMention).id(stranger).id(doc), encodeMentions(&MentionSupport{Version: 1}), "document a does not state it"},
		{k(spaceEvidence).id(stranger).id(doc), evidence, "document a does not state it"},
		{k(spaceProp).id(ada).str("year").str("n7").id(doc), evidence, "document a does not state it"},
		{k(spaceEntity).id(stranger), encodeEntity(&EntityFold{Label: "X", Key: "x", Documents: 1}), "it is not what its mentions add up to: 0 mentions in 1 documents, there are 0 in 0"},
		{k(spaceEntity).id(acme), encodeEntity(&EntityFold{Label: "Org", Key: "acme ltd", Documents: 1, Mentions: 1, Names: []NameCount{{"ACME", 1, false}}}), "it is not what its mentions add up to: 1 mentions in 1 documents, there are 1 in 1"},
		{k(spaceRelation).id(stranger), encodeRelation(&RelationFold{Type: "X", Documents: 1}, ada, acme), "its type and ends give another id"},
		{k(spaceOut).id(ada).str("OWNS").id(acme), stranger[:], "it does not lead to the relation of its ends"},
		{k(spaceIn).id(ada).str("OWNS").id(acme), stranger[:], "it does not lead to the relation of its ends"},
		{k(spaceName).str("countess").id(ada), writer(nil).str("Person").bool(false), "its entity does not have that name"},
		{k(spaceKey).str("z"), doc[:], "it does not lead to the document of its key"},
		{k(spaceChunk).id(stranger), encodeChunkRef(doc, 1, 0), "it leads to chunk 0 of version 1 of document " + docID("a") + ", which is not it"},
		{k(spaceNo).u32(99), encodeNumbered(numbered{doc: doc, version: 1}), "it leads to version 1 of document " + docID("a") + ", which has other numbers"},
		{k(spaceText).id(doc).u32(9), []byte{1, 'x'}, "its version is missing"},
		{k(spaceText).id(doc).u32(1), []byte{1, 'x'}, "its content hash is not that of its text"},
		{k(spaceAssert).id(doc).u32(1), []byte(`{"entities":[],"chunks":[{"i":0,"mentions":[{"n":3,"name":"x","s":0,"e":1,"c":1,"x":""}]}]}`), "malformed change of document a: entity number 3 of 0"},
		{k(spacePosting).byte(ListChunks).str("nowhere").u32(0), []byte{1}, "the postings of this term are not those of the texts"},
		{k(spacePosting).byte(ListChunks).str("robot").u32(7), []byte{3}, "the postings of this term are not those of the texts"},
		{k(spacePosting).byte(listEntities).str("x").u32(0), stranger[:], "entity " + stranger.String() + " never was"},
		{k(spaceCandKey).str("entity|x|y").id(doc), writer(nil).str("pending").uint(1).float(1), "missing: g/\"entity|x|y\"/" + docID("a") + " leads to it"},
		{k(spaceDecision).str("entity|x|y"), []byte(`{"key":"entity|x|z","state":"approved"}`), `it decides "entity|x|z": "approved"`},
		{k(spaceCounts), []byte(`{"documents":3,"chunks":3,"mentions":4,"entities":{"Org":2,"Person":1},"relations":{"WORKS_FOR":1},"candidates":1,"chunk_no":4,"terms":18}`), "it counts 3 documents, there are 2"},
		{k(spaceCounts), []byte(`{"documents":2,"chunks":3,"mentions":4,"entities":{"Org":2,"Person":1},"relations":{"WORKS_FOR":1},"candidates":1,"chunk_no":4,"terms":18,"matches":{"active":1}}`), "it counts 0 matches confirmed, there are 1"},
		{k(spaceMatch).id(acme).id(stranger), Match{Method: "x", Score: 1, Found: MatchActive}.row(), "missing: its other side is there"},
		{k(spaceMatchID).id(stranger), make(writer, 0, 32).id(ada).id(acme), "whose id it is not"},
		{matchID, make(writer, 0, 32).id(pair[0]).id(pair[1]), "it leads to a match that is not there"},
		{k(spaceConflict).id(stranger), Conflict{Property: "year", Values: 2}.row(ada), "it leads to year of " + ada.String() + ", whose id it is not"},
		{year, Conflict{Property: "year", Values: 3}.row(ada), "it counts 3 values of year of " + ada.String() + ", there are 2 of year of " + ada.String()},
		{k(spaceCounts), []byte(`{"documents":2,"chunks":3,"mentions":4,"entities":{"Org":2,"Person":1},"relations":{"WORKS_FOR":1},"candidates":1,"chunk_no":4,"terms":18,"matches":{"confirmed":1},"conflicts":{"entity|Org|year":1}}`), "it counts 0 conflicts entity|Person|year, there are 1"},
		{ruling, mustJSON(t, ruled.of(acme.String(), "year")), `it is of "year" of "` + acme.String() + `"`},
		{ruling, mustJSON(t, ruled.of(ada.String(), "born")), `it is of "born" of "` + ada.String() + `"`},
		{ruling, mustJSON(t, Ruling{Decision: "hide", Seq: 2}.of(ada.String(), "year")), `a ruling decides "hide"`},
		{ruling, mustJSON(t, Ruling{Decision: RuleChoose, Seq: 2}.of(ada.String(), "year")), "a ruling decides choose, and does something else"},
		{ruling, mustJSON(t, Ruling{Decision: RuleKeepAll, All: true, Seq: 3}.of(ada.String(), "year")), "it was decided in commit 3, which never was"},
		{rulingKey(1, stranger, "year"), mustJSON(t, ruled.of(stranger.String(), "year")), "missing: there is a ruling about year of " + stranger.String()},
		{rulingID, make(writer, 0, 48).id(stranger).str("year"), "it leads to year of " + stranger.String() + ", whose id it is not"},
		{k(spaceCounts), []byte(`{"documents":2,"chunks":3,"mentions":4,"entities":{"Org":2,"Person":1},"relations":{"WORKS_FOR":1},"candidates":1,"chunk_no":4,"terms":18,"matches":{"confirmed":1}}`), "it counts 0 rulings, there are 1"},
		{k(spacePropFold).id(ada).str("year").str("n1842"), mustPropFold(t, PropertyFold{Value: int64(1842), Documents: 2, Best: 0.7, BestDocs: 1, NewestDocs: 1}), "it is not what its documents say: 2 documents, there are 1"},
		{k(spaceDegree).str("OWNS:source").id(ada), make(writer, 0, 8).uint(2), "it counts 2 relations, there are fewer than two"},
		{k(spaceDegreeID).id(stranger), make(writer, 0, 48).id(ada).str("OWNS").str(":source"), "it leads to relations OWNS:source of " + ada.String() + ", whose id it is not"},
		{shapeOfKey(1, ada), encodeShapeOf("Person", []string{"job"}), "it says that Person " + ada.String() + ` has values of ["job"], it has of ["year"]`},
		{shapeOfKey(1, stranger), encodeShapeOf("Person", nil), "its entity is missing"},
		{shapeAt("Person", []string{"year"}).key(1), encodeShape([]string{"year"}, 3), "it counts 3 entities, there are 1"},
		{shapeAt("Person", []string{"year"}).key(1), encodeShape([]string{"job"}, 1), `it is of the properties ["job"], whose place is another`},
		{shapeAt("Person", []string{"job"}).key(1), encodeShape([]string{"job"}, 1), "it counts 1 entities, there are none"},
		{shapeAt("Person", []string{"job"}).member(1, ada), isMember, "its entity has other properties"},
		{rulingKey(1, ada, "year:missing"), mustJSON(t, ruled.of(ada.String(), "year:missing")), "it accepts that a value of year is missing, and there is one"},
		{rulingKey(1, ada, "job:missing"), mustJSON(t, Ruling{Decision: RuleReject, Rejected: []string{"n1"}, Seq: 2}.of(ada.String(), "job:missing")), "a ruling about a missing value does something else than to accept it"},
		{k(spaceApart).id(ada), make(writer, 0, 32).str("year"), "no ruling about year tells them apart"},
		{k(spaceApart).id(stranger), make(writer, 0, 32).str("year"), "it counts 0 names told apart, there are 1"},
		{ruling, mustJSON(t, toldApart.of(ada.String(), "year")), "missing: a ruling tells apart by year"},
		{ruling, mustJSON(t, Ruling{Decision: RuleDifferent, Apart: true, Label: "Org", Key: "acme", Seq: 2}.of(ada.String(), "year")), `it tells apart Org "acme", which is another entity`},
		{ruling, mustJSON(t, Ruling{Decision: RuleKeepAll, Apart: true, Label: "Person", Key: "ada lovelace", Seq: 2}.of(ada.String(), "year")), "a ruling tells apart, and does something else"},
	} {
		at := c.key.with(2)
		was, closer, err := s.db.Get(at)
		if err == nil {
			was = append([]byte(nil), was...)
			require.NoError(t, closer.Close())
		}
		require.NoError(t, s.db.Set(at, seal(c.key, c.v), pebble.NoSync))
		r, verr := s.Verify(t.Context(), g, nil)
		require.NoError(t, verr)
		var said []string
		for _, p := range r.Problems {
			said = append(said, p.Message)
		}
		require.Contains(t, strings.Join(said, "\n"), c.want, "%s: %v", describe(at), r.Problems)
		if err == nil {
			require.NoError(t, s.db.Set(at, was, pebble.NoSync))
		} else {
			require.NoError(t, s.db.Delete(at, pebble.NoSync))
		}
	}
	for _, c := range []struct {
		row  []byte
		want api.Problem
	}{
		{k(spaceDoc).id(doc).seq(9), api.Problem{Kind: "document", Key: "d/" + docID("a") + "@9", Message: "a row above the current sequence 2"}},
		{k(spaceDoc).raw([]byte("short")).end(), api.Problem{Kind: "document", Key: "d/73686f7274", Message: "a malformed key"}},
		{k('`').raw([]byte("x")).end(), api.Problem{Kind: "raw", Key: "`/78", Message: "no such kind of row"}},
		{k(spaceJournal).u64(1).u32(0).end(), api.Problem{Kind: "journal", Key: "j/000000000000000100000000", Message: "the journal of a commit that ended"}},
	} {
		require.NoError(t, s.db.Set(c.row, []byte("x"), pebble.NoSync))
		var told []api.Problem
		r, err := s.Verify(t.Context(), g, func(p api.Problem) { told = append(told, p) })
		require.NoError(t, err)
		require.Contains(t, r.Problems, c.want)
		require.Equal(t, told, r.Problems)
		require.Equal(t, len(told), r.Total)
		require.NoError(t, s.db.Delete(c.row, pebble.NoSync))
	}
	verified(t, s)
}

func mustPropFold(t *testing.T, f PropertyFold) []byte {
	b, err := encodePropFold(&f)
	require.NoError(t, err)
	return b
}
