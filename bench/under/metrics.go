package under

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// ErrNoMetric: what was started does not measure that.
var ErrNoMetric = errors.New("no such metric")

// Metric reads the values of metrics without labels from /metrics; Options.Metrics has it listen.
func (f *Factmill) Metric(ctx context.Context, names ...string) ([]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.http+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close() // only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: %s", resp.Status)
	}
	found := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				found[name] = v
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	out := make([]float64, len(names))
	for i, n := range names {
		v, ok := found[n]
		if !ok {
			return nil, fmt.Errorf("%w: %s", ErrNoMetric, n)
		}
		out[i] = v
	}
	return out, nil
}
