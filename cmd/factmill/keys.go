package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/bus/rights"
)

const keysLong = `Make the keys of a NATS server for Factmill, where each service may do what it needs and nothing else, and people are known by name.

DIR gets keys.conf and people.conf, which go beside deploy/nats/accounts.conf, and seeds/NAME with a seed each, which only its owner may
read. What is there already stays: run it again after an upgrade, to add people, or to make one key anew.

A person's NAME is the actor in the audit of what they decide. Roles: publisher (sends documents), reader (asks), reviewer (reads and
decides), operator (all of it, and schema, settings, registry, dead letters, back-ups).`

// keyState is what DIR knows of keys: the public halves.
type keyState struct {
	Users  map[string]string `json:"users"`
	People []rights.Person   `json:"people"`
}

const keyFile = "keys.json"

func (c *cli) keysCmd() *cobra.Command {
	var people, anew, gone []string
	cmd := &cobra.Command{
		Use: "keys DIR", Short: "Make the keys of services and people for NATS", Args: cobra.ExactArgs(1), Long: keysLong,
		Example: `  factmill keys ./nats --person ada=reviewer --person crawler=publisher
  factmill keys ./nats --anew extractor
  factmill keys ./nats --gone crawler`,
		RunE: c.do(func(_ context.Context, _ *cobra.Command, args []string) error {
			dir := args[0]
			st, err := readKeys(dir)
			if err != nil {
				return err
			}
			made, err := st.change(dir, people, anew, gone)
			if err != nil {
				return err
			}
			if err := st.write(dir); err != nil {
				return err
			}
			return c.showKeys(dir, st, made)
		}),
	}
	f := cmd.Flags()
	f.StringArrayVar(&people, "person", nil, "`NAME=ROLE`: add a person or program, or change its role (repeats)")
	f.StringArrayVar(&anew, "anew", nil, "`NAME`: make this one's key anew; the old one is no key any more (repeats)")
	f.StringArrayVar(&gone, "gone", nil, "`NAME`: take this person away (repeats)")
	return cmd
}

func readKeys(dir string) (*keyState, error) {
	st := &keyState{Users: map[string]string{}}
	b, err := os.ReadFile(filepath.Join(dir, keyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err == nil {
		err = json.Unmarshal(b, st)
	}
	if err != nil {
		return nil, failf("read the keys in %s: %w", dir, err)
	}
	if st.Users == nil {
		st.Users = map[string]string{}
	}
	return st, nil
}

// change makes the keys that are missing or asked for, and says whose they are.
func (st *keyState) change(dir string, people, anew, gone []string) (made []string, err error) {
	make1 := func(name string) (string, error) {
		k, err := rights.NewKey()
		if err != nil {
			return "", err
		}
		made = append(made, name)
		return k.Public, writeFile(filepath.Join(dir, "seeds", name), k.Seed+"\n", 0o600)
	}
	known := func(name string) int {
		return slices.IndexFunc(st.People, func(p rights.Person) bool { return p.Name == name })
	}
	for _, s := range people {
		name, role, _ := strings.Cut(s, "=")
		p := rights.Person{Name: name, Role: rights.Role(role)}
		if err := p.Check(); err != nil {
			return nil, usagef("--person %s: %w", s, err)
		}
		if i := known(name); i >= 0 {
			st.People[i].Role = p.Role
		} else {
			st.People = append(st.People, p)
		}
	}
	for _, name := range gone { // all is checked before anything is done
		if known(name) < 0 {
			return nil, usagef("--gone %s: there is no such person in %s", name, dir)
		}
	}
	for _, name := range anew {
		if slices.Contains(gone, name) || known(name) < 0 && !slices.Contains(rights.Names(), name) {
			return nil, usagef("--anew %s: there is nobody of that name in %s", name, dir)
		}
	}
	for _, name := range gone {
		st.People = slices.DeleteFunc(st.People, func(p rights.Person) bool { return p.Name == name })
		if err := os.Remove(filepath.Join(dir, "seeds", name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, failf("%w", err)
		}
	}
	for _, name := range anew {
		if i := known(name); i >= 0 {
			st.People[i].Key = ""
		} else {
			delete(st.Users, name)
		}
	}
	for _, name := range rights.Names() {
		if st.Users[name] == "" {
			if st.Users[name], err = make1(name); err != nil {
				return nil, err
			}
		}
	}
	for i := range st.People {
		if st.People[i].Key == "" {
			if st.People[i].Key, err = make1(st.People[i].Name); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(st.People, func(a, b rights.Person) int { return strings.Compare(a.Name, b.Name) })
	return made, nil
}

// write lays the files; the seeds are there already, so that no public key is without one.
func (st *keyState) write(dir string) error {
	b, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return failf("write the keys: %w", err)
	}
	for name, text := range map[string]string{
		"keys.conf": rights.KeysConfig(st.Users), "people.conf": rights.PeopleConfig(st.People), keyFile: string(b) + "\n",
	} {
		if err := writeFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file whole or not at all.
func writeFile(path, text string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return failf("%w", err)
	}
	part := path + ".part"
	if err := os.WriteFile(part, []byte(text), mode); err != nil {
		return failf("%w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return failf("%w", err)
	}
	return nil
}

func (c *cli) showKeys(dir string, st *keyState, made []string) error {
	if c.json {
		return render.Value(c.out, map[string]any{"directory": dir, "users": st.Users, "people": st.People, "made": made})
	}
	t := render.NewTable("NAME", "ROLE", "PUBLIC KEY", "SEED")
	row := func(name, role, key string) {
		note := filepath.Join(dir, "seeds", name)
		if slices.Contains(made, name) {
			note += " (made now)"
		}
		t.Row(name, role, key, note)
	}
	for _, n := range rights.Names() {
		role := "service"
		if n == rights.Provision || n == rights.Admin {
			role = n
		}
		row(n, role, st.Users[n])
	}
	for _, p := range st.People {
		row(p.Name, string(p.Role), p.Key)
	}
	if err := t.Write(c.out); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.out, "\nGive each service its seed (--nats.nkey FILE), each person theirs (--nkey FILE), and nobody another's. NATS reads keys.conf and people.conf\nanew with `nats-server --signal reload`.")
	return err
}
