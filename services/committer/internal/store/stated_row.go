package store

import "github.com/factmill/factmill/pkg/jsonx"

// encodeStated is encodeJSON, faster.
func encodeStated(st Stated) ([]byte, error) {
	if b, ok := jsonx.Write(&st, appendStated); ok {
		return b, nil
	}
	return encodeJSON(st)
}

// readStatedRow reads a row with its numbers as they are written. False: encoding/json is to read it.
func readStatedRow(b []byte) (st Stated, ok bool) {
	if !jsonx.Read(b, &st, jsonx.Literals, readStated) {
		return Stated{}, false
	}
	return st, true
}
