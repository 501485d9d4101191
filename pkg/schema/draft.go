package schema

import "slices"

// draft is a file as read, or a file on top of what it extends, before the checks across types.
type draft struct {
	name, version, description string
	extends, extendsPath       string
	excluded                   []exclusion
	excludePath                string
	entities                   []*entityDraft
	relations                  []*relationDraft
	rules                      Rules
	rulePaths                  []rulePath
	review                     Review
	broken                     bool // a base is missing, so unknown types are not reported
}

type exclusion struct{ kind, label, path string }

// rulePath remembers where a label of the rules section stands.
type rulePath struct{ kind, label, path string }

type entityDraft struct {
	label, path, description string
	described                bool
	override                 bool
	parents                  []string
	parentPaths              map[string]string
	props                    []*propertyDraft
}

type relationDraft struct {
	label, path, description string
	described                bool
	override                 bool
	patterns                 []Pattern
	ownPatterns              bool // patterns were given, as opposed to added
	added                    []Pattern
	addsPatterns             bool
	patternPaths             map[Pattern]string
	narrowed                 []narrowing
	card                     Cardinality
	hasSource, hasTarget     bool
	symmetric, hasSymmetric  bool
	self, hasSelf            bool
	inverse                  []string
	inversePaths             map[string]string
	props                    []*propertyDraft
}

// narrowing is a pattern of an override, which must lie within those of the base.
type narrowing struct {
	pattern Pattern
	path    string
	within  patternSet
}

// propertyDraft is a property with what the file says of it. What it leaves out (Type and Merge are then empty) comes
// from above or is the default.
type propertyDraft struct {
	Property
	path     string
	enumPath string
	has      map[string]bool
}

func newDraft() *draft {
	return &draft{rules: Rules{Entities: map[string]EntityRules{}, Relations: map[string]RelationRules{}}}
}

func newEntityDraft(label, path string) *entityDraft {
	return &entityDraft{label: label, path: path, parentPaths: map[string]string{}}
}

func newRelationDraft(label, path string) *relationDraft {
	return &relationDraft{label: label, path: path, patternPaths: map[Pattern]string{}, inversePaths: map[string]string{}}
}

// onto gives a property what it leaves out from the one it stands for, and says where it would loosen that one.
func (p *propertyDraft) onto(base Property) (Property, []string) {
	out := p.Property
	var loose []string
	if out.Type == "" {
		out.Type = base.Type
	} else if base.Type != "" && out.Type != base.Type {
		loose = append(loose, "may not change its type from "+string(base.Type)+" to "+string(out.Type))
		out.Type = base.Type
	}
	if !p.has["description"] {
		out.Description = base.Description
	}
	if out.Merge == "" {
		out.Merge = base.Merge
	}
	flag := func(name string, value *bool, base bool) {
		if !p.has[name] {
			*value = base
		} else if base && !*value {
			loose = append(loose, "may not give up `"+name+"`")
			*value = true
		}
	}
	flag("required", &out.Required, base.Required)
	flag("identifies", &out.Identifies, base.Identifies)
	flag("sensitive", &out.Sensitive, base.Sensitive)
	if out.Enum == nil {
		if p.has["enum"] && base.Enum != nil {
			loose = append(loose, "may not give up `enum`")
		}
		out.Enum = base.Enum
	} else if base.Enum != nil {
		for _, value := range out.Enum {
			if !slices.Contains(base.Enum, value) {
				loose = append(loose, "may not add "+quote(value)+" to `enum`")
			}
		}
	}
	return out, loose
}
