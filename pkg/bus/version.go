package bus

import (
	"regexp"
	"strings"
)

var (
	semverForm  = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
	leadingZero = regexp.MustCompile(`^0\d+$`)
	notBuild    = regexp.MustCompile(`[^0-9A-Za-z-]+`)
)

// ServiceVersion is a build's version as a service with it is listed.
func ServiceVersion(version string) string { return semver(version) }

// semver makes a build's version one that micro takes, which wants a semantic one: v1.2.3 loses its v, and what is none at all (a
// commit's hash, "dev") becomes the build part of 0.0.0.
func semver(version string) string {
	v := strings.TrimPrefix(version, "v")
	if semverForm.MatchString(v) && !zeros(v) {
		return v
	}
	build := strings.Trim(notBuild.ReplaceAllString(version, "-"), "-")
	if build == "" {
		return "0.0.0"
	}
	return "0.0.0+" + build
}

// zeros tells a pre-release part that is a number with a leading zero, which semantic versions do not have.
func zeros(v string) bool {
	v, _, _ = strings.Cut(v, "+")
	_, pre, _ := strings.Cut(v, "-")
	for _, part := range strings.Split(pre, ".") {
		if leadingZero.MatchString(part) {
			return true
		}
	}
	return false
}
