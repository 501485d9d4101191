package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// mendRoom is how much must be writable before streams are opened anew, in bytes.
	mendRoom = 16 << 20
	// mendPause is between two looks whether it is.
	mendPause = time.Second
)

// mender opens the streams anew after a write of one failed, as on a full disk: the server takes nothing more into such a stream, however much
// room there is later. Connections stay; who publishes or reads meanwhile is refused for a moment, and tries again.
type mender struct {
	srv    *server.Server
	dir    string
	log    *logger
	config *server.JetStreamConfig // as the server began with; of run
	quit   chan struct{}           // closed by Shutdown
	done   chan struct{}
}

func (m *mender) run() {
	defer close(m.done)
	for {
		select {
		case <-m.quit:
			return
		case <-m.log.broken:
		}
		for !m.mend() {
			select {
			case <-m.quit:
				return
			case <-time.After(mendPause):
			}
		}
	}
}

// mend says whether it is done.
func (m *mender) mend() bool {
	if err := m.room(); err != nil {
		return false
	}
	select { // what failed until now is mended by this
	case <-m.log.broken:
	default:
	}
	if now := m.srv.JetStreamConfig(); now != nil {
		m.config = now
		m.config.StoreDir = m.dir
	}
	err := m.srv.ShutdownJetStream()
	if err == nil {
		config := *m.config // which it changes
		err = m.srv.EnableJetStream(&config)
	}
	if err != nil {
		m.log.log.Error("embedded NATS: the streams are not there yet", "error", err)
		return false
	}
	m.log.log.Warn("embedded NATS: writes had failed, and there is room again: the streams were opened anew", "dir", m.dir)
	return true
}

// room fails while little can be written.
func (m *mender) room() (err error) {
	f, err := os.Create(filepath.Join(m.dir, "ROOM"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	block := make([]byte, 1<<20)
	for range mendRoom / len(block) {
		if _, err := f.Write(block); err != nil {
			return err
		}
	}
	return f.Sync()
}
