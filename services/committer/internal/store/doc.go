// Package store keeps graphs in one Pebble: documents and their versions, the assertions of each version, the folds that
// these give (entities, relations, property values), candidates, and the raw rows of the job machine. It is the only
// package that knows Pebble.
//
// Every row of a graph's facts ends with the commit sequence that wrote it, inverted, so that a read at sequence n takes the
// first row at or after n of its prefix. A commit writes at n+1, which no reader sees, and one synced batch makes n+1
// current. Rows are never changed afterwards, so a reader needs no lock and no Pebble snapshot.
//
// Offsets are bytes of a version's normalised text, end-exclusive. Ids are UUIDs in their text form.
package store
