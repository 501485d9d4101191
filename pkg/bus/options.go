package bus

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// BadOption is an option of a connection that is wrong whatever else is right. A command ends with code 2 on it.
type BadOption struct {
	// Key is the configuration value, for example nats.nkey.
	Key string
	// File, or address, that it names; empty where it names none.
	File string
	// Why it is wrong, and the Way out.
	Why, Way string
}

// Error implements error.
func (e *BadOption) Error() string { return e.Called(e.Key) }

// Called is the error with the option called as it was given: --nkey instead of nats.nkey.
func (e *BadOption) Called(name string) string {
	if e.File != "" {
		name += " " + e.File
	}
	return name + ": " + e.Why + ": " + e.Way
}

const (
	waySeed  = "name the file of a seed, as factmill keys writes it (seeds/NAME)"
	wayCreds = "name the credentials file of a user"
	wayCA    = "name the file of the authority that signed the server's certificate, in PEM"
	wayCert  = "name the PEM files of a certificate and of its key"
	wayURL   = "an address is nats://HOST:PORT, or several with commas"
)

// check refuses what no server can make right, with what it is called and where it lies.
func (o Options) check() error {
	if o.InProcess != nil {
		return nil
	}
	if err := checkURL(o.URL); err != nil {
		return err
	}
	if o.NKey != "" && o.Creds != "" {
		return &BadOption{Key: "nats.nkey", File: o.NKey, Why: "a connection has one key, and there is a credentials file too", Way: "give one of them"}
	}
	if o.Password != "" && o.User == "" {
		return &BadOption{Key: "nats.password", Why: "it is nobody's", Way: "give nats.user (--user) too"}
	}
	if o.NKey != "" {
		b, err := small("nats.nkey", o.NKey, waySeed)
		if err != nil {
			return err
		}
		if !userSeed(b) {
			return &BadOption{Key: "nats.nkey", File: o.NKey, Why: "it holds no user's seed", Way: waySeed}
		}
	}
	if o.Creds != "" {
		b, err := small("nats.creds", fromHome(o.Creds), wayCreds)
		if err != nil {
			return err
		}
		if !userSeed(b) {
			return &BadOption{Key: "nats.creds", File: o.Creds, Why: "it holds no user's credentials", Way: wayCreds}
		}
	}
	return o.checkTLS()
}

// userSeed says whether a file's contents have the seed of a user, and wipes them.
func userSeed(b []byte) bool {
	defer wipe(b)
	k, err := nkeys.ParseDecoratedUserNKey(b)
	if err != nil {
		return false
	}
	k.Wipe()
	return true
}

// fromHome reads ~ as the client does in the name of a credentials file.
func fromHome(name string) string {
	rest, ok := strings.CutPrefix(name, "~")
	if home, err := os.UserHomeDir(); ok && err == nil {
		return filepath.Join(home, rest)
	}
	return name
}

func (o Options) checkTLS() error {
	if o.CA != "" {
		b, err := small("nats.tls.ca", o.CA, wayCA)
		if err != nil {
			return err
		}
		if !x509.NewCertPool().AppendCertsFromPEM(b) {
			return &BadOption{Key: "nats.tls.ca", File: o.CA, Why: "it holds no certificate", Way: wayCA}
		}
	}
	return CheckPair(o.Cert, o.Key)
}

// CheckPair refuses files that are no certificate with its key (*BadOption); neither is none.
func CheckPair(cert, key string) error {
	switch {
	case cert == "" && key == "":
		return nil
	case key == "":
		return &BadOption{Key: "nats.tls.cert", File: cert, Why: "a certificate needs its key", Way: "give nats.tls.key (--tls-key) too"}
	case cert == "":
		return &BadOption{Key: "nats.tls.key", File: key, Why: "a key needs its certificate", Way: "give nats.tls.cert (--tls-cert) too"}
	}
	c, err := small("nats.tls.cert", cert, wayCert)
	if err != nil {
		return err
	}
	k, err := small("nats.tls.key", key, wayCert)
	if err != nil {
		return err
	}
	defer wipe(k)
	if _, err := tls.X509KeyPair(c, k); err != nil {
		return &BadOption{Key: "nats.tls.cert", File: cert, Why: "with " + key + " it makes no pair: " + err.Error(), Way: wayCert}
	}
	return nil
}

func checkURL(addresses string) error {
	for _, s := range strings.Split(addresses, ",") {
		s = strings.TrimSpace(s)
		if !strings.Contains(s, "://") {
			s = "nats://" + s
		}
		u, err := url.Parse(s)
		why := ""
		switch {
		case err != nil: // whose own text has the address, with a password in it
			why = "it is no address"
		case u.Hostname() == "":
			why = "it names no host"
		case u.Scheme != "nats" && u.Scheme != "tls" && u.Scheme != "ws" && u.Scheme != "wss":
			why = "NATS is not spoken over " + u.Scheme
		}
		if why != "" {
			return &BadOption{Key: "nats.url", File: Redacted(addresses), Why: why, Way: wayURL}
		}
	}
	return nil
}

// maxOptionFile is more than any key or bundle of certificates has.
const maxOptionFile = 1 << 20

// small reads a file that an option names.
func small(key, name, way string) ([]byte, error) {
	bad := func(err error) error {
		e := &BadOption{Key: key, File: name, Why: err.Error(), Way: way}
		var p *fs.PathError
		if errors.As(err, &p) {
			e.Why = p.Err.Error()
		}
		return e
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, bad(err)
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxOptionFile+1))
	if err == nil && len(b) > maxOptionFile {
		err = fmt.Errorf("it has more than %d bytes", maxOptionFile)
	}
	if err != nil {
		return nil, bad(err)
	}
	return b, nil
}

func wipe(b []byte) {
	for i := range b {
		b[i] = 0
	}
}

// connectError tells a server that is away from one that does not let the user in, and from options that do not fit the server.
func connectError(o Options, err error) error {
	var (
		host    x509.HostnameError
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("connect to %s %s: %w: does it know that, and was it told of new keys (nats-server --signal reload)? %w", o.where(), o.gave(), ErrRefused, err)
	case errors.As(err, &host) && o.CA != "":
		return &BadOption{Key: "nats.url", File: o.where(), Why: "the server's certificate is for another name: " + host.Error(), Way: "use a name that it has"}
	case (errors.As(err, &unknown) || errors.As(err, &invalid)) && o.CA != "":
		return &BadOption{Key: "nats.tls.ca", File: o.CA, Why: fmt.Sprintf("it does not vouch for the certificate of %s (%v)", o.where(), err), Way: wayCA}
	case errors.As(err, &unknown):
		return fmt.Errorf("%w at %s: nobody here knows who signed its certificate: %s (--tls-ca): %w", ErrUnreachable, o.where(), wayCA, err)
	default:
		return fmt.Errorf("%w at %s: is it running, and is the address right (--nats)? %w", ErrUnreachable, o.where(), err)
	}
}

// gave says with what the user came, without saying any secret.
func (o Options) gave() string {
	switch {
	case o.NKey != "":
		return "with the seed in " + o.NKey
	case o.Creds != "":
		return "with the credentials in " + o.Creds
	case o.User != "":
		return "as the user " + o.User
	case o.Token != "":
		return "with a token"
	}
	return "without a key (--nkey, --creds), token (--token-file) or user"
}

// greeted dials a server and tells its first line.
type greeted struct {
	timeout time.Duration
	told    func(line string)
}

// Dial implements nats.CustomDialer.
func (g greeted) Dial(network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: g.timeout}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &firstLine{Conn: c, told: g.told}, nil
}

// maxGreeting of a server.
const maxGreeting = 64 << 10

// firstLine is a connection whose first line is told once it was read. Reads are one after the other, as the client does them.
type firstLine struct {
	net.Conn
	line []byte
	told func(string) // nil: it was
}

func (c *firstLine) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.told == nil {
		return n, err
	}
	line, _, whole := bytes.Cut(b[:n], []byte("\n"))
	if c.line = append(c.line, line...); whole {
		c.told(string(c.line))
	}
	if whole || len(c.line) > maxGreeting {
		c.told, c.line = nil, nil
	}
	return n, err
}
