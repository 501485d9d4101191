package candidates

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/patch"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// spacePatch of the store holds the newest patches that a reply showed, so that a conversion can name one: 'p' patch id → the patch,
// 'n' number → patch id, 'h' → the next number.
const spacePatch = byte('G')

// maxKept patches of a graph are remembered.
const maxKept = 200

func patchKey(id string) []byte { return append([]byte{'p'}, id...) }

func patchNo(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{'n'}, n) }

// keep remembers a patch, unless it is remembered already.
func (d *Desk) keep(ctx context.Context, graph string, p *patch.Patch) error {
	if len(p.CandidateIDs) == 0 {
		return nil
	}
	d.patches.Lock()
	defer d.patches.Unlock()
	get := func(key []byte) ([]byte, error) { return d.deps.Store.Get(graph, spacePatch, key) }
	if was, err := get(patchKey(p.PatchID)); err != nil || was != nil {
		return err
	}
	head, err := get([]byte{'h'})
	if err != nil {
		return err
	}
	n := uint64(0)
	if len(head) == 8 {
		n = binary.BigEndian.Uint64(head)
	}
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("patch %s: %w", p.PatchID, err)
	}
	op := func(key, value []byte) store.Op {
		return store.Op{Graph: graph, Space: spacePatch, Key: key, Value: value}
	}
	ops := []store.Op{op(patchKey(p.PatchID), body), op(patchNo(n), []byte(p.PatchID)), op([]byte{'h'}, binary.BigEndian.AppendUint64(nil, n+1))}
	if n >= maxKept {
		old, err := get(patchNo(n - maxKept))
		if err != nil {
			return err
		}
		ops = append(ops, op(patchNo(n-maxKept), nil), op(patchKey(string(old)), nil))
	}
	return d.deps.Store.Write(ctx, ops, true)
}

// patchOf is the patch that a conversion is about.
func (d *Desk) patchOf(graph string, req api.ReviewConvert) (*patch.Patch, error) {
	switch p := req.Patch; {
	case (p == nil) == (req.PatchID == ""):
		return nil, api.Errorf(400, "bad_value", "say what to convert: a whole patch, or the patch_id of one")
	case p == nil:
	case p.Format != patch.Format:
		return nil, api.Errorf(400, "bad_value", "patch_format is %d: this version reads %d", p.Format, patch.Format)
	case p.Next != "":
		return nil, api.Errorf(400, "bad_value", "the patch is one page of a reply: ask for the others and join their candidate_ids, or name its patch_id")
	case !p.Intact():
		return nil, api.Errorf(400, "bad_value", "patch_id %.40q is not that of the patch's base schema and candidate_ids: the file was changed or cut; make it anew", p.PatchID)
	default:
		return p, nil
	}
	body, err := d.deps.Store.Get(graph, spacePatch, patchKey(req.PatchID))
	if err != nil {
		return nil, err
	}
	if body == nil {
		return nil, api.Errorf(404, "patch_not_found", "graph %s remembers no patch %.40q: the newest %d that were made are; give the whole patch", graph, req.PatchID, maxKept)
	}
	var p patch.Patch
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("%w: patch %s: %w", store.ErrCorrupt, req.PatchID, err)
	}
	return &p, nil
}
