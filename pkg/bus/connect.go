package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"
)

// ErrUnreachable says that there is no NATS where one was looked for. A command ends with code 3 on it.
var ErrUnreachable = errors.New("NATS cannot be reached")

// ErrRefused says that NATS refused the credentials.
var ErrRefused = errors.New("NATS refused the connection")

// Options of a connection.
type Options struct {
	// URL of the server, or several with commas. Defaults to nats://127.0.0.1:4222. Not used with InProcess.
	URL string
	// Name of the service, or of the command: the connection's name and the source of its events. Defaults to "factmill".
	Name string
	// Creds is the path of a credentials file, NKey of a seed file; or user and password, or a token.
	Creds, NKey, User, Password, Token string
	// Seed is an nkey seed itself, of a process that runs its own server.
	Seed string
	// Inbox is the prefix of replies, which the user may be bound to; see Inbox. Defaults to the usual _INBOX.
	Inbox string
	// CA verifies the server; Cert and Key are the client's. Paths of PEM files.
	CA, Cert, Key string
	// InProcess connects to an embedded server without a socket.
	InProcess nats.InProcessConnProvider
	// Once gives up when the connection is lost instead of trying again for ever: for commands.
	Once bool
	// Greeting is told the first line of a server that is connected to over a socket: its INFO, which says where it listens and what it asks.
	Greeting func(line string)
	// Timeout of the first connection. Defaults to 5 s.
	Timeout time.Duration
	// Tracer records what the connection's runners do. Defaults to none.
	Tracer trace.Tracer
	// Log defaults to slog.Default; Now to time.Now.
	Log *slog.Logger
	Now func() time.Time
}

// Conn is a connection to NATS with what Factmill does over it. Safe for concurrent use.
type Conn struct {
	NC *nats.Conn
	JS jetstream.JetStream

	name string
	log  *slog.Logger
	now  func() time.Time
	// tracer is nil when nothing is recorded.
	tracer trace.Tracer

	failed   chan error
	failOnce sync.Once
	gone     context.Context // ends with the cause when the connection is closed for good
	goes     context.CancelCauseFunc
	closed   chan struct{} // closed when NC is

	denied denials

	batches chan struct{} // one token an atomic batch under way
	full    fullCounter

	bodiesMu sync.Mutex
	bodies   map[string]jetstream.ObjectStore // by bucket; guarded by bodiesMu
}

// maxBatches under way from one connection. A server allows 50 a stream.
const maxBatches = 16

// Connect connects. No server there wraps ErrUnreachable, refused credentials wrap ErrRefused. Unless o.Once is set, a
// connection that is lost later is looked for again for ever; see Failed.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	if o.Name == "" {
		o.Name = "factmill"
	}
	if o.URL == "" {
		o.URL = nats.DefaultURL
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", o.where(), err)
	}
	c := &Conn{
		name: o.Name, log: o.Log, now: o.Now, tracer: o.Tracer, failed: make(chan error, 1), closed: make(chan struct{}),
		batches: make(chan struct{}, maxBatches), bodies: map[string]jetstream.ObjectStore{},
	}
	c.gone, c.goes = context.WithCancelCause(context.Background())
	if err := o.check(); err != nil {
		return nil, err
	}
	opts, err := c.options(o)
	if err != nil {
		return nil, err
	}
	if c.NC, err = nats.Connect(o.URL, opts...); err != nil {
		return nil, connectError(o, err)
	}
	c.JS, err = jetstream.New(c.NC, jetstream.WithPublishAsyncMaxPending(4096),
		jetstream.WithPublishAsyncTimeout(ackTimeout), jetstream.WithDefaultTimeout(ackTimeout))
	if err != nil {
		c.NC.Close()
		return nil, fmt.Errorf("use JetStream at %s: %w", o.where(), err)
	}
	return c, nil
}

// where names the server without its password.
func (o Options) where() string {
	if o.InProcess != nil {
		return "the embedded server"
	}
	return Redacted(o.URL)
}

// Redacted is a list of addresses, with commas between them, without the passwords and tokens in them. It needs no address to be valid.
func Redacted(addresses string) string {
	var out []string
	for _, s := range strings.Split(addresses, ",") {
		s = strings.TrimSpace(s)
		scheme, rest, ok := strings.Cut(s, "://")
		if ok {
			scheme += "://"
		} else {
			scheme, rest = "", s
		}
		host := rest
		if i := strings.IndexAny(rest, "/?#"); i >= 0 && validHost(rest[:i]) {
			host = rest[:i]
		}
		if at := strings.LastIndexByte(host, '@'); at >= 0 {
			user, _, ok := strings.Cut(host[:at], ":")
			if user += ":"; !ok { // a token
				user = ""
			}
			s = scheme + user + "xxxxx" + rest[at:]
		}
		out = append(out, s)
	}
	return strings.Join(out, ",")
}

// validHost says whether what stands before a path can be user and host: else the password may have a slash in it.
func validHost(s string) bool {
	u, err := url.Parse("x://" + s)
	return err == nil && u.Host != ""
}

func (c *Conn) options(o Options) ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name(o.Name), nats.Timeout(o.Timeout), nats.PingInterval(20 * time.Second), nats.MaxPingsOutstanding(3),
		nats.ErrorHandler(c.onError), nats.ClosedHandler(c.onClosed),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				c.log.Warn("connection to NATS lost", "name", o.Name, "error", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { c.log.Info("connected to NATS again", "name", o.Name) }),
	}
	if o.Once {
		opts = append(opts, nats.NoReconnect())
	} else {
		opts = append(opts, nats.MaxReconnects(-1), nats.ReconnectWait(250*time.Millisecond),
			nats.ReconnectJitter(100*time.Millisecond, time.Second))
	}
	if o.Inbox != "" {
		opts = append(opts, nats.CustomInboxPrefix(o.Inbox))
	}
	if o.Seed != "" {
		k, err := seedOption(o.Seed)
		if err != nil {
			return nil, err
		}
		opts = append(opts, k)
	}
	if o.InProcess != nil {
		return append(opts, nats.InProcessServer(o.InProcess)), nil
	}
	if o.Greeting != nil {
		opts = append(opts, nats.SetCustomDialer(greeted{timeout: o.Timeout, told: o.Greeting}))
	}
	if o.Creds != "" {
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	if o.NKey != "" {
		k, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil { // it changed since it was checked
			return nil, &BadOption{Key: "nats.nkey", File: o.NKey, Why: err.Error(), Way: waySeed}
		}
		opts = append(opts, k)
	}
	if o.User != "" {
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	if o.Token != "" {
		opts = append(opts, nats.Token(o.Token))
	}
	if o.CA != "" {
		opts = append(opts, nats.RootCAs(o.CA))
	}
	if o.Cert != "" || o.Key != "" {
		opts = append(opts, nats.ClientCert(o.Cert, o.Key))
	}
	return opts, nil
}

// Tracer is what records; nil: nothing does.
func (c *Conn) Tracer() trace.Tracer { return c.tracer }

// Name of the connection: its service or command.
func (c *Conn) Name() string { return c.name }

// Failed gives one error when the connection can no longer do its work: it was closed for good, or a permission is missing. A
// service ends on it instead of idling.
func (c *Conn) Failed() <-chan error { return c.failed }

func (c *Conn) fail(err error) {
	c.failOnce.Do(func() { c.failed <- err })
}

func (c *Conn) onError(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	if lateReply(err) {
		c.log.Warn("a reply was refused: its request came over a connection that was lost", "name", c.name, "error", err)
		return
	}
	level := slog.LevelError
	if errors.Is(err, nats.ErrPermissionViolation) && c.denied.tell(err) { // whoever asked says so
		level = slog.LevelDebug
	}
	c.log.Log(context.Background(), level, "NATS reported an error", "name", c.name, "subject", subject, "error", err)
	if errors.Is(err, nats.ErrPermissionViolation) {
		c.fail(fmt.Errorf("%s lacks a permission at NATS: %w", c.name, err))
	}
}

func (c *Conn) onClosed(nc *nats.Conn) {
	close(c.closed)
	if err := nc.LastError(); err != nil {
		err = fmt.Errorf("the connection of %s to NATS is closed: %w", c.name, err)
		c.goes(err)
		c.fail(err)
	}
}

// Close sends what is buffered and closes the connection. It returns when the connection's callbacks have ended.
func (c *Conn) Close() {
	if c.NC.IsConnected() {
		ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
		if err := c.NC.FlushWithContext(ctx); err != nil {
			c.log.Warn("flush before closing the connection", "name", c.name, "error", err)
		}
		stop()
	}
	c.NC.Close()
	<-c.closed
}
