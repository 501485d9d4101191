package app

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
)

const envPrefix = "FACTMILL_"

// OtherEnv lists the environment variables that are read but are no configuration values.
var OtherEnv = []string{"FACTMILL_CONFIG", "FACTMILL_ACTOR", "FACTMILL_CPUPROFILE", "FACTMILL_FAILPOINT"}

// orchestrated are the variables that Kubernetes gives every pod beside a service that is called factmill or factmill-something.
var orchestrated = regexp.MustCompile(`^FACTMILL_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)$`)

// UnknownEnv says which FACTMILL_ variables mean nothing here, one line each, with the name that was probably meant. They are no
// error: a newer version, or another program, may read them.
func UnknownEnv(environ []string) []string {
	known := append([]string(nil), OtherEnv...)
	for _, k := range Keys {
		known = append(known, EnvName(k.Name))
	}
	is := map[string]bool{}
	for _, k := range known {
		is[k] = true
	}
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || is[name] || orchestrated.MatchString(name) {
			continue
		}
		is[name] = true
		hint := ""
		if best := nearestEnv(name, known); best != "" {
			hint = ", did you mean " + best + "?"
		}
		out = append(out, fmt.Sprintf("the environment variable %.200s is unknown and not used%s", name, hint))
	}
	sort.Strings(out)
	return out
}

func nearestEnv(name string, known []string) string {
	rest := make([]string, len(known))
	for i, k := range known {
		rest[i] = strings.TrimPrefix(k, envPrefix)
	}
	best := nearest(strings.TrimPrefix(name, envPrefix), rest)
	if best == "" {
		return ""
	}
	return envPrefix + best
}
