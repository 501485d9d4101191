// Package target decides where a command works: at a NATS server, at the `up` that runs on the default data directory, or
// embedded on a data directory of its own.
package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// The files in a data directory that say who works on it.
const (
	lockFile = "lock"
	upFile   = "up.json"
)

// Up describes the process that holds a data directory. The file is readable by its owner only: it may hold a token.
type Up struct {
	PID int `json:"pid"`
	// Command that holds the directory, for example "up".
	Command string `json:"command"`
	// URL of its NATS server; empty when it listens nowhere.
	URL   string `json:"url,omitempty"`
	Token string `json:"token,omitempty"`
	// CA is the file that vouches for its certificate; empty without TLS.
	CA string `json:"ca,omitempty"`
	// Starting is true until the services are ready.
	Starting bool   `json:"starting,omitempty"`
	Started  string `json:"started"`
}

// InUse says that another process holds the data directory.
type InUse struct {
	Dir string
	// By is who holds it; nil when it left no word.
	By *Up
}

func (e *InUse) Error() string {
	if e.By == nil {
		return fmt.Sprintf("the data directory %s is in use by another process: wait for it, stop it, or choose another with --data", e.Dir)
	}
	way := "wait for it or stop it"
	if e.By.URL != "" {
		way = "talk to it with --nats " + e.By.URL + ", or stop it"
	}
	return fmt.Sprintf("the data directory %s is in use by process %d (factmill %s): %s", e.Dir, e.By.PID, e.By.Command, way)
}

// Lock is the hold on a data directory. Only one process has it.
type Lock struct {
	dir  string
	file *os.File
	made []string // what was made to have it, the directory first
}

// Acquire takes a data directory, which it makes when there is none. Another holder is *InUse.
func Acquire(dir string) (*Lock, error) {
	var made []string
	for _, name := range []string{dir, filepath.Join(dir, lockFile)} {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			made = append(made, name)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := lockExclusive(filepath.Join(dir, lockFile))
	if errors.Is(err, errHeld) {
		u, _ := ReadUp(dir) // a missing word makes a shorter message
		return nil, &InUse{Dir: dir, By: u}
	}
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	// What a process that was killed left behind describes nobody.
	if err := os.Remove(filepath.Join(dir, upFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", dir, err), f.Close())
	}
	return &Lock{dir: dir, file: f, made: made}, nil
}

// Tell writes down who holds the directory, whole or not at all.
func (l *Lock) Tell(u Up) error {
	u.PID = os.Getpid()
	b, err := json.MarshalIndent(u, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", upFile, err)
	}
	t := filepath.Join(l.dir, "."+upFile+".part")
	if err := os.WriteFile(t, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", upFile, err)
	}
	if err := os.Rename(t, filepath.Join(l.dir, upFile)); err != nil {
		return fmt.Errorf("write %s: %w", upFile, err)
	}
	return nil
}

// Release lets the directory go.
func (l *Lock) Release() error {
	err := os.Remove(filepath.Join(l.dir, upFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.file.Close())
}

// Undo lets the directory go, and takes away what Acquire made of it: where nothing came of it. What others put there stays.
func (l *Lock) Undo() error {
	if runtime.GOOS == "windows" { // where nothing that is open can be taken away
		err := l.Release()
		l.clear()
		return err
	}
	l.clear() // held still: whoever waits for the file looks again, see lockExclusive
	return l.Release()
}

// clear removes what is empty of what was made. What cannot be removed stays: it harms nobody.
func (l *Lock) clear() {
	for i := len(l.made) - 1; i >= 0; i-- {
		_ = os.Remove(l.made[i])
	}
}

const maxUp = 64 << 10

// ReadUp reads who holds a directory. Without such a file it returns nil.
func ReadUp(dir string) (*Up, error) {
	f, err := os.Open(filepath.Join(dir, upFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxUp))
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	u := &Up{}
	if err := json.Unmarshal(b, u); err != nil {
		return nil, fmt.Errorf("data directory %s: %s is damaged: %w", dir, upFile, err)
	}
	return u, nil
}

// DataDir is where data lies when nobody says otherwise: $XDG_DATA_HOME/factmill, else ~/.local/share/factmill.
func DataDir(getenv func(string) string) (string, error) {
	if x := getenv("XDG_DATA_HOME"); x != "" && filepath.IsAbs(x) {
		return filepath.Join(x, "factmill"), nil
	}
	home := getenv("HOME")
	if home == "" {
		h, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no data directory: set FACTMILL_DATA or --data: %w", err)
		}
		home = h
	}
	return filepath.Join(home, ".local", "share", "factmill"), nil
}

func stamp(now func() time.Time) string { return now().UTC().Format(time.RFC3339) }
