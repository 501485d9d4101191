// Package rights says who may do what at NATS: the one table that deploy/nats, the embedded server and the tests are made from. It is data
// over the table of streams, the kinds of events and the verbs, so that it cannot drift from them.
//
// Services are users of one account, FACTMILL, each with lists of subjects. People and programs that use Factmill are an account each, which
// imports what its role may ask: see Person.
package rights

import (
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
)

// Account of the services: it has the streams.
const Account = "FACTMILL"

// Users of the account that are no services.
const (
	// Provision makes the streams, consumers and buckets, and reads or writes nothing in them.
	Provision = "provision"
	// Admin may do everything in the account: the operator's key for the day when something is wrong.
	Admin = "admin"
)

// User of the account FACTMILL, with what it may publish and subscribe to. Empty lists: everything.
type User struct {
	Name               string
	Publish, Subscribe []string
	// Answers lets it reply to each request that it was sent.
	Answers bool
}

// Service is what one of the six does, in words of the contract.
type Service struct {
	Name string
	// Emits are kinds of events that it publishes, besides putting a message of its own queue back.
	Emits []string
	// Hears are kinds of events that it follows without a consumer.
	Hears []string
	// Asks are verbs, noun.verb, of others.
	Asks []string
	// Answers are nouns, or noun.verb where the noun is another's.
	Answers []string
	// Looks are streams of which it reads single messages.
	Looks []string
	// Bucket rights: reads and writes of objects. Who writes may purge: an upload that broke off is taken back.
	Reads, Writes []string
	// Also are subjects of the JetStream interface, or of none of the above.
	Also []string
	// Says are subjects that its own replicas say things on, to each other.
	Says []string
	// Micro are the names that it registers under; nil is its own.
	Micro []string
}

// Stages are the four that a document passes, in their order, with the kind of event that each hands on.
var Stages = []struct{ Name, Output string }{
	{"loader", events.KindLoaded}, {"chunker", events.KindChunked}, {"extractor", events.KindExtracted}, {"resolver", events.KindResolved},
}

// Services is the table: the six, and the read replica.
var Services = []Service{
	{
		Name: "loader", Emits: []string{events.KindFound, events.KindLoaded, events.KindStaged, events.KindEnded, events.KindSealed, dead("loader")},
		Asks: []string{"jobs.open", "query.stored"}, Looks: []string{bus.StreamIngest},
		Reads: []string{bus.BucketUploads, bus.BucketBodies}, Writes: []string{bus.BucketBodies}, Also: anyObject(),
	},
	{
		Name: "chunker", Emits: []string{events.KindChunked, events.KindStaged, events.KindEnded, dead("chunker")},
		Reads: []string{bus.BucketBodies}, Writes: []string{bus.BucketBodies},
	},
	{
		Name: "extractor", Emits: []string{events.KindExtracted, events.KindEnded, dead("extractor"), "reply", "spent", "asked"},
		Hears: []string{events.KindRolledBack, events.KindCommitted}, Asks: []string{"schema.get"},
		Looks: []string{bus.StreamJobs, bus.StreamReplies, bus.StreamSpent},
		Reads: []string{bus.BucketBodies}, Writes: []string{bus.BucketBodies},
	},
	{
		Name: "resolver", Emits: []string{events.KindResolved, events.KindEnded, dead("resolver")},
		Asks: []string{"schema.get", "registry.lookup"}, Answers: []string{"match"},
		Reads: []string{bus.BucketBodies}, Writes: []string{bus.BucketBodies},
	},
	{
		// It owns the state: it decides documents anew, publishes what it committed, puts dead letters back on the streams that they fell
		// off, and cleans up behind jobs.
		Name: "committer", Micro: []string{"committer", "jobs"},
		Emits: []string{
			events.KindIngest, events.KindFound, events.KindLoaded, events.KindChunked, events.KindExtracted, events.KindResolved,
			events.KindStaged, events.KindEnded, events.KindSealed, events.KindOpened, events.KindHeld, events.KindCommitted,
			events.KindRollingBack, events.KindRolledBack, events.KindCandidate, events.KindChange, events.KindAudit, dead("committer"),
		},
		Asks: []string{"match.judge"}, Says: []string{events.Root + ".writer"}, // who writes
		Answers: []string{"query", "schema", "settings", "registry", "vectors", "matches", "candidates", "decisions", "conflicts", "stale", "held",
			"dead-letters", "backup", "feed", "jobs"},
		Looks: []string{bus.StreamIngest, bus.StreamJobs, bus.StreamCandidates, bus.StreamChanges, bus.StreamAudit, bus.StreamDead, bus.StreamSpent},
		Reads: []string{bus.BucketUploads, bus.BucketBodies}, Writes: []string{bus.BucketUploads, bus.BucketBodies},
		Also: slices.Concat(
			[]string{bus.HealthSubject("*"), js("STREAM.MSG.DELETE", bus.StreamIngest), js("STREAM.MSG.DELETE", bus.StreamDead), js("STREAM.PURGE", bus.StreamIngest)},
			each("STREAM.PURGE", bus.StreamFound, bus.StreamLoaded, bus.StreamChunked, bus.StreamExtracted),
			passing(bus.StreamDead), passing(bus.StreamIngest), listObjects(bus.BucketUploads), listObjects(bus.BucketBodies),
		),
	},
	{
		Name: "reviewer", Hears: []string{events.KindCandidate},
		Asks: []string{
			"query.seq", "query.records", "schema.get", "matches.list", "matches.get", "matches.decide", "candidates.kinds", "candidates.patch",
			"candidates.plan", "candidates.policy", "candidates.decide", "candidates.edit", "candidates.prune", "candidates.undo", "candidates.convert",
			"decisions.list", "stale.list", "stale.get", "stale.decide", "held.list", "held.get", "held.decide", "conflicts.list", "conflicts.get",
			"conflicts.decide",
		},
		Answers: []string{"review", "query.candidates"},
	},
	{
		// A read replica copies the committer's store and answers reads; it says nothing that others keep.
		Name: "replica", Micro: []string{"replica", "replica-query"}, Hears: []string{events.KindChange},
		Asks: []string{"feed.begin", "feed.read", "backup.read", "backup.end"}, Answers: []string{"replica", "query"},
	},
}

// table that the rights are over; its numbers do not matter.
var table = bus.NewTable(bus.TableOptions{})

func dead(stage string) string { return events.KindDead + "." + stage }

// js is a subject of the JetStream interface.
func js(tokens ...string) string { return "$JS.API." + strings.Join(tokens, ".") }

func each(call string, streams ...string) (out []string) {
	for _, s := range streams {
		out = append(out, js(call, s))
	}
	return out
}

// event is the pattern of all graphs' events of a kind, as the stream that keeps them has it; nil when no stream keeps them, which a test refuses
// for each kind in the table.
func event(kind string) []string {
	of, stage, named := strings.Cut(kind, events.KindDead+".")
	if named && of == "" {
		kind = events.KindDead
	}
	for _, s := range table.Streams {
		for _, subject := range s.Subjects {
			rest, ok := strings.CutPrefix(subject, events.Root+".*."+kind)
			if !ok || rest != "" && rest[0] != '.' {
				continue
			}
			if named && of == "" { // of one stage
				return []string{events.Root + ".*." + kind + "." + stage + strings.TrimPrefix(rest, ".*")}
			}
			return []string{subject}
		}
	}
	return nil
}

// verb is the pattern of all graphs' requests to noun.verb, or of a noun's any verb.
func verb(name string) string {
	if !strings.Contains(name, ".") {
		name += ".*"
	}
	return events.Root + ".*." + name
}

// by is verb for requests whose sender the server names.
func by(name string) string {
	return strings.Replace(verb(name), events.Root+".", bus.RootBy+".*.", 1)
}

func object(bucket string) string { return "OBJ_" + bucket }

// configuration are the subjects by which every service reads back what it relies on.
func configuration() (out []string) {
	for _, s := range table.Streams {
		out = append(out, js("STREAM.INFO", s.Name))
	}
	for _, b := range table.Buckets {
		out = append(out, js("STREAM.INFO", object(b.Bucket)))
	}
	for _, c := range table.Consumers {
		out = append(out, js("CONSUMER.INFO", c.Stream, c.Config.Durable))
	}
	return out
}

// queue is what a service does with its own consumers: pull, acknowledge in both forms, and put a message back behind the others.
func queue(durable string) (out []string) {
	for _, c := range table.Consumers {
		if c.Config.Durable != durable {
			continue
		}
		out = append(out, js("CONSUMER.MSG.NEXT", c.Stream, durable),
			"$JS.ACK."+c.Stream+"."+durable+".>", "$JS.ACK.*.*."+c.Stream+"."+durable+".>")
		if c.Stream == bus.StreamIngest {
			continue
		}
		for _, s := range table.Streams {
			if s.Name == c.Stream {
				out = append(out, s.Subjects...)
			}
		}
	}
	return out
}

// passing are the calls that read a stream through a consumer which goes when it was read.
func passing(stream string) []string {
	return []string{js("CONSUMER.CREATE", stream, ">"), js("CONSUMER.MSG.NEXT", stream, "*"), js("CONSUMER.DELETE", stream, "*")}
}

func look(stream string) []string {
	return []string{js("STREAM.MSG.GET", stream), js("DIRECT.GET", stream), js("DIRECT.GET", stream, ">")}
}

// readObjects of a bucket: their descriptions, and their bytes, without a consumer.
func readObjects(bucket string) []string { return look(object(bucket)) }

// listObjects of a bucket takes an ordered consumer, which goes when it was read. Who may make one can have the server deliver to any subject.
func listObjects(bucket string) []string {
	s := object(bucket)
	return append(look(s), js("CONSUMER.CREATE", s, ">"), js("CONSUMER.DELETE", s, "*"), js("CONSUMER.INFO", s, "*"),
		"$JS.FC."+s+".>", "$JS.FC.*.*."+s+".>")
}

// anyObject lets the loader read a source object:<bucket>/<name> in any bucket of the account.
func anyObject() []string {
	return []string{js("STREAM.INFO", "*"), js("DIRECT.GET", "*"), js("DIRECT.GET", "*", "$O.*.M.*")}
}

func writeObjects(bucket string) []string {
	return []string{"$O." + bucket + ".C.*", "$O." + bucket + ".M.*", js("STREAM.PURGE", object(bucket))}
}

// user makes the lists of a service.
func (s Service) user() User {
	u := User{Name: s.Name, Answers: true, Subscribe: []string{bus.Inbox(s.Name) + ".>", bus.HealthSubject(s.Name), "$SRV.*"}}
	u.Publish = append(configuration(), queue(s.Name)...)
	for _, k := range s.Emits {
		u.Publish = append(u.Publish, event(k)...)
	}
	for _, v := range s.Asks {
		u.Publish = append(u.Publish, verb(v))
	}
	for _, st := range s.Looks {
		u.Publish = append(u.Publish, look(st)...)
	}
	for _, b := range s.Reads {
		u.Publish = append(u.Publish, readObjects(b)...)
	}
	for _, b := range s.Writes {
		u.Publish = append(u.Publish, writeObjects(b)...)
	}
	u.Publish, u.Subscribe = append(u.Publish, s.Says...), append(u.Subscribe, s.Says...)
	u.Publish = append(u.Publish, s.Also...)
	for _, k := range s.Hears {
		u.Subscribe = append(u.Subscribe, event(k)...)
	}
	for _, n := range s.Answers {
		u.Subscribe = append(u.Subscribe, verb(n), by(n))
	}
	micro := s.Micro
	if micro == nil {
		micro = []string{s.Name}
	}
	for _, n := range micro {
		u.Subscribe = append(u.Subscribe, "$SRV.*."+n, "$SRV.*."+n+".*", bus.HealthSubject(n))
	}
	u.Publish, u.Subscribe = sorted(u.Publish), sorted(u.Subscribe)
	return u
}

func sorted(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

// Users of the account, the services first.
func Users() []User {
	var out []User
	for _, s := range Services {
		out = append(out, s.user())
	}
	return append(out, provision(), User{Name: Admin})
}

// provision may make and change what the table has, and look at it.
func provision() User {
	u := User{Name: Provision, Publish: configuration(), Subscribe: []string{bus.Inbox(Provision) + ".>"}}
	u.Publish = append(u.Publish, bus.UserInfoSubject, bus.AccountInfoSubject) // so that it can say where it works
	streams := []string{}
	for _, s := range table.Streams {
		streams = append(streams, s.Name)
	}
	for _, b := range table.Buckets {
		streams = append(streams, object(b.Bucket))
	}
	for _, s := range streams {
		u.Publish = append(u.Publish, js("STREAM.CREATE", s), js("STREAM.UPDATE", s))
	}
	for _, c := range table.Consumers {
		u.Publish = append(u.Publish, js("CONSUMER.CREATE", c.Stream, c.Config.Durable))
	}
	u.Publish = sorted(u.Publish)
	return u
}

// Names of the users.
func Names() []string {
	var out []string
	for _, u := range Users() {
		out = append(out, u.Name)
	}
	return out
}
