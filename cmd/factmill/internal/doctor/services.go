package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
)

const (
	// healthLimit is how long a service may take to say how it is.
	healthLimit = 2 * time.Second
	// quiet is how long no further service answers a ping.
	quiet = 300 * time.Millisecond
	// pings answers of all replicas together.
	pings = 4096
)

// services asks each service how it is.
func (d *doctor) services(ctx context.Context) error {
	for _, name := range d.Services {
		h, err := d.health(ctx, name)
		if err == nil {
			d.running[name] = []string{h.Version}
		}
		var no *api.Error
		switch {
		case errors.As(err, &no) && strings.Contains(no.Message, "in time"):
			d.skipped[name] = true // it would be waited for at every question
			d.find("service_silent", Error, "the "+name+" does not answer", doing[name], "restart it: "+d.serve(name))
		case errors.As(err, &no) && no.Code == "not_ready":
			d.skipped[name] = true
			d.find("service_missing", Error, "no "+name+" is running", doing[name], d.serve(name))
		case err != nil:
			return err
		case !h.Ready:
			d.find("service_not_ready", Error, "the "+name+" is not ready: "+h.Why, doing[name], mendOf(name, h.Why))
		case h.Why != "":
			d.find("service_hindered", Warning, "the "+name+" stands still: "+h.Why, doing[name], mendOf(name, h.Why))
		}
	}
	return d.replicas(ctx)
}

// replicas asks a read replica, where there is one, what hinders it.
func (d *doctor) replicas(ctx context.Context) error {
	h, err := d.health(ctx, "replica")
	var no *api.Error
	switch {
	case errors.As(err, &no) && no.Code == "not_ready" && strings.Contains(no.Message, "in time"):
		d.find("service_silent", Warning, "a read replica does not answer", "reads of it wait", "restart it: "+d.serve("replica"))
	case errors.As(err, &no) && no.Code == "not_ready": // none is needed
	case err != nil:
		return err
	case !h.Ready:
		d.find("replica_not_ready", Warning, "a read replica is not ready: "+h.Why, "what is read of it is old, or nothing", "see that the committer runs and lets it read (docs/operations/cluster.md), and its log")
	}
	return nil
}

// doing is what does not happen without a service.
var doing = map[string]string{
	"loader": "no document is listed or fetched", "chunker": "no document is cut", "extractor": "no text is read", "resolver": "no name gets its identity, no pair is judged",
	"committer": "nothing is committed, and nothing can be asked", "reviewer": "nobody can see or decide what waits for a person",
}

// mendOf is what helps a service that cannot work, by what it says.
func mendOf(service, why string) string {
	switch {
	case strings.Contains(why, "ollama pull "):
		_, model, _ := strings.Cut(why, "ollama pull ")
		model, _, _ = strings.Cut(model, " ")
		return "ollama pull " + strings.Trim(model, ";,.")
	case strings.Contains(why, "model"):
		return "start the model server, or: factmill config (ollama.url)"
	case strings.Contains(why, "free"):
		return "free disk space, or lower store.reserve"
	}
	return "look at the log of the " + service
}

func (d *doctor) health(ctx context.Context, name string) (h bus.Health, err error) {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	return h, d.Conn.Request(ctx, bus.HealthSubject(name), nil, &h)
}

// versions asks every replica.
func (d *doctor) versions(ctx context.Context) error {
	found, err := d.ping(ctx)
	if err != nil {
		return err
	}
	d.compare(found)
	return nil
}

// told compares what the services said of themselves with their health, where replicas may not be asked.
func (d *doctor) told(context.Context) error {
	d.compare(d.running)
	return nil
}

func (d *doctor) compare(found map[string][]string) {
	by := map[string][]string{}
	for name, versions := range found {
		for _, v := range versions {
			if !slices.Contains(by[v], name) {
				by[v] = append(by[v], name)
			}
		}
	}
	const why = "all writers of a graph run one version, and a newer one may write events that an older one hands back"
	switch all := slices.Sorted(maps.Keys(by)); {
	case len(all) > 1:
		var list []string
		for _, v := range all {
			slices.Sort(by[v])
			list = append(list, strings.Join(by[v], ", ")+" "+v)
		}
		d.find("versions_differ", Error, "services run different versions: "+strings.Join(list, "; "), why, "update all services to one version")
	case len(all) == 1 && all[0] != bus.ServiceVersion(d.Version):
		d.find("cli_differs", Warning, fmt.Sprintf("the services run %s and this command is %s", all[0], bus.ServiceVersion(d.Version)),
			"it may ask what they do not know", "use the factmill command of that version")
	}
}

// ping lists the versions of our services' replicas.
func (d *doctor) ping(ctx context.Context) (map[string][]string, error) {
	inbox := d.Conn.NC.NewInbox()
	sub, err := d.Conn.NC.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // closed with the connection at the latest
	if err := d.Conn.NC.PublishRequest("$SRV.PING", inbox, nil); err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for range pings {
		wait, cancel := context.WithTimeout(ctx, quiet)
		m, err := sub.NextMsgWithContext(wait)
		cancel()
		if err != nil {
			if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders)) {
				return out, nil
			}
			return out, err
		}
		var p struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		}
		if json.Unmarshal(m.Data, &p) == nil && slices.Contains(d.Services, p.Name) {
			out[p.Name] = append(out[p.Name], p.Version)
		}
	}
	return out, nil
}
