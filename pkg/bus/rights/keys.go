package rights

import (
	"fmt"

	"github.com/nats-io/nkeys"
)

// Key is a pair of an nkey user.
type Key struct{ Public, Seed string }

// NewKey makes a pair.
func NewKey() (Key, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return Key{}, fmt.Errorf("make an nkey: %w", err)
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return Key{}, fmt.Errorf("make an nkey: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return Key{}, fmt.Errorf("make an nkey: %w", err)
	}
	return Key{Public: public, Seed: string(seed)}, nil
}

// NewKeys makes a pair for each user of the services' account.
func NewKeys() (map[string]Key, error) {
	out := map[string]Key{}
	for _, n := range Names() {
		k, err := NewKey()
		if err != nil {
			return nil, err
		}
		out[n] = k
	}
	return out, nil
}

// Publics are the public halves.
func Publics(keys map[string]Key) map[string]string {
	out := map[string]string{}
	for n, k := range keys {
		out[n] = k.Public
	}
	return out
}
