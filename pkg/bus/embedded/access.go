package embedded

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/rights"
)

// Access is who may connect to an embedded server. All are in its one account, where the streams are.
type Access struct {
	// Keys of the users of pkg/bus/rights, by name.
	Keys map[string]rights.Key
	// Token that clients without a key must bring; they may do anything then, as they may with no token where none is set.
	Token string
	// Closed lets nobody in without a key.
	Closed bool
	// Cert and Key are PEM files of the server's certificate: connections over TCP are encrypted then.
	Cert, Key string
}

// NewAccess makes keys for all users. They live as long as the process.
func NewAccess() (*Access, error) {
	keys, err := rights.NewKeys()
	if err != nil {
		return nil, err
	}
	return &Access{Keys: keys}, nil
}

// As are the options of a connection as one of the users.
func (a *Access) As(user string, o bus.Options) bus.Options {
	o.Seed, o.Inbox = a.Keys[user].Seed, bus.Inbox(user)
	return o
}

// local is the user of those who bring nothing, and are let in.
const local = "local"

func (a *Access) into(o *server.Options) error {
	for _, u := range rights.Users() {
		key, ok := a.Keys[u.Name]
		if !ok {
			return fmt.Errorf("start the embedded NATS: %s has no key", u.Name)
		}
		o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: key.Public, Permissions: permissions(u)})
	}
	switch {
	case a.Token != "":
		o.Authorization = a.Token
	case !a.Closed:
		o.Users = []*server.User{{Username: local, Password: rand.Text()}}
		o.NoAuthUser = local
	}
	if a.Cert == "" && a.Key == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	o.TLS, o.TLSTimeout = true, (5 * time.Second).Seconds()
	o.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return nil
}

func permissions(u rights.User) *server.Permissions {
	if u.Publish == nil && u.Subscribe == nil {
		return nil
	}
	p := &server.Permissions{Publish: &server.SubjectPermission{Allow: u.Publish}, Subscribe: &server.SubjectPermission{Allow: u.Subscribe}}
	if u.Answers {
		p.Response = &server.ResponsePermission{MaxMsgs: rights.Replies, Expires: rights.ReplyWithin}
	}
	return p
}
