package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// called runs the program and returns its exit code and streams.
func called(t *testing.T, env []string, args ...string) (int, string, string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(args, strings.NewReader(""), &out, &errs, env)
	return code, out.String(), errs.String()
}

func TestKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nats")
	make := func(args ...string) (st keyState, made []string) {
		code, out, errs := called(t, nil, append([]string{"keys", dir, "--json"}, args...)...)
		require.Zero(t, code, errs)
		var reply struct {
			keyState
			Made []string `json:"made"`
		}
		require.NoError(t, json.Unmarshal([]byte(out), &reply))
		require.NotRegexp(t, `\bSU[A-Z2-7]{56}\b`, out, "a seed is never printed")
		return reply.keyState, reply.Made
	}
	first, made := make("--person", "ada=reviewer", "--person", "crawler=publisher")
	require.Len(t, made, 11)
	require.Len(t, first.Users, 9)
	for _, name := range made {
		info, err := os.Stat(filepath.Join(dir, "seeds", name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
	people, err := os.ReadFile(filepath.Join(dir, "people.conf"))
	require.NoError(t, err)
	require.Contains(t, string(people), "factmill-by.ada.*.review.*")
	require.NotContains(t, string(people), "factmill-by.crawler.*.review.*")

	again, made := make()
	require.Empty(t, made, "what is there stays")
	require.Equal(t, first, again)

	after, made := make("--anew", "extractor", "--anew", "ada", "--gone", "crawler", "--person", "rob=reader")
	require.ElementsMatch(t, []string{"extractor", "ada", "rob"}, made)
	require.NotEqual(t, first.Users["extractor"], after.Users["extractor"])
	require.Equal(t, first.Users["loader"], after.Users["loader"])
	require.NoFileExists(t, filepath.Join(dir, "seeds", "crawler"))
	keys, err := os.ReadFile(filepath.Join(dir, "keys.conf"))
	require.NoError(t, err)
	require.Contains(t, string(keys), after.Users["extractor"])
	require.NotContains(t, string(keys), first.Users["extractor"])

	for want, args := range map[string][]string{
		"bad name \"Ada\"":               {"--person", "Ada=reader"},
		"unknown role \"boss\"":          {"--person", "eva=boss"},
		"there is nobody of that name":   {"--anew", "nobody"},
		"there is no such person":        {"--gone", "loader"},
		"be no service's and not policy": {"--person", "policy=reviewer"},
	} {
		code, _, errs := called(t, nil, append([]string{"keys", dir}, args...)...)
		require.Equal(t, exitUsage, code)
		require.Contains(t, errs, want)
	}
	// All is checked before anything is done.
	require.FileExists(t, filepath.Join(dir, "seeds", "ada"))
	for _, anew := range []string{"nobody", "ada"} {
		code, _, errs := called(t, nil, "keys", dir, "--gone", "ada", "--anew", anew)
		require.Equal(t, exitUsage, code)
		require.Contains(t, errs, "there is nobody of that name")
		require.FileExists(t, filepath.Join(dir, "seeds", "ada"))
	}
}

func TestExposed(t *testing.T) {
	for _, c := range []struct {
		listen           string
		token, encrypted bool
		says             string
	}{
		{"127.0.0.1:4222", false, false, ""}, {":4222", false, false, ""}, {"localhost:1", false, false, ""}, {"[::1]:4222", false, false, ""},
		{"0.0.0.0:4222", true, true, ""}, {"0.0.0.0:4222", true, false, "unencrypted"}, {"10.0.0.7:4222", false, true, "anybody who can connect"},
		{"0.0.0.0:4222", false, false, "anybody who can connect may read and change every graph, unencrypted"}, {"host.example:1", false, false, "anybody"},
	} {
		got := exposed(c.listen, c.token, c.encrypted)
		require.Equal(t, c.says == "", got == "", "%s: %s", c.listen, got)
		require.Contains(t, got, c.says)
	}
}

// The token comes from a flag, the environment or a file, and is shown nowhere.
func TestTokenIsHidden(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("sesame\n"), 0o600))
	for _, c := range []struct{ env, args []string }{
		{[]string{"FACTMILL_NATS_TOKEN=sesame"}, nil}, {[]string{"FACTMILL_NATS_TOKEN_FILE=" + file}, nil}, {nil, []string{"--token-file", file}}, {nil, []string{"--token", "sesame"}},
	} {
		code, out, errs := called(t, c.env, append([]string{"config", "--json"}, c.args...)...)
		require.Zero(t, code, errs)
		require.NotContains(t, out+errs, "sesame")
	}
	code, _, errs := called(t, nil, "config", "--token-file", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "--token-file ")
	require.Contains(t, errs, "none: no such file or directory")
}
