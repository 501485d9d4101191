package query

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/services/committer/internal/store"
)

// unscoped are the methods of a snapshot that a limited read may use as they are, and why. What is new in the store is answered by scoped itself, or
// stands here with its reason.
var unscoped = map[string]string{
	"Seq": "the commit, which every reply names", "Graph": "the name of the graph",
	"Counts":       "of the whole graph: for the weights of words alone, and for which types there are to look for; never in a limited reply",
	"Postings":     "numbers of chunks, which ChunkAt resolves; and how rare a word is",
	"NamePostings": "ids, which Entity resolves with the names that are inside",
	"Verdict":      "pairs of entities that are in the component already", "Verdicts": "pairs of entities that are in the component already",
	"Ruling": "what was decided about a property or relation that is inside", "RulingsOf": "what was decided about a property that is inside", "Rulings": "the export",
	"Homonyms": "not used by reads", "RulingByID": "not used by reads", "Counted": "not used by reads", "Conflicts": "not used by reads", "Conflict": "not used by reads",
	"Degrees": "not used by reads", "DegreeByID": "not used by reads", "StaleDecided": "not used by reads", "Stale": "not used by reads", "StaleByID": "not used by reads",
	"Shapes": "not used by reads", "Shaped": "not used by reads", "ShapeOf": "not used by reads",
	"MatchSince": "the age of what waits, a metric", "ConflictSince": "the age of what waits, a metric",
	"MatchesAll": "the export, which takes no limits", "Match": "not used by reads", "MatchByID": "not used by reads",
	"CandidatesByKey": "query.records, which takes no limits", "CandidateAll": "query.records, which takes no limits", "Candidate": "query.records, which takes no limits",
	"CandidateRows": "the export, which takes no limits", "CandidateByID": "not used by reads", "Decision": "the export", "Decisions": "the export", "DecisionsFrom": "the export",
}

func TestScopedAnswersEveryRead(t *testing.T) {
	whole, own := reflect.TypeFor[*store.Snapshot](), ownMethods(t)
	for i := range whole.NumMethod() {
		name := whole.Method(i).Name
		_, excused := unscoped[name]
		require.True(t, own[name] != excused, "store.Snapshot.%s: either scoped answers it (within_read.go), or unscoped says why it need not", name)
	}
	for name := range unscoped {
		_, ok := whole.MethodByName(name)
		require.True(t, ok, "%s is no method of a snapshot any more", name)
	}
}

// ownMethods are the methods that scoped declares: those that it only has from the snapshot in it are not among them.
func ownMethods(t *testing.T) map[string]bool {
	t.Helper()
	own := map[string]bool{}
	for _, file := range []string{"within.go", "within_read.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
				if id, ok := star.X.(*ast.Ident); ok && id.Name == "scoped" {
					own[fn.Name.Name] = true
				}
			}
		}
	}
	return own
}
