package ctl

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// Commands that look need SELECT and nothing else, and no server that takes
// writes.
func TestLookingNeedsSelectOnly(t *testing.T) {
	t.Parallel()
	l, ids := filled(t)
	u, err := url.Parse(l.url)
	if err != nil {
		t.Fatal(err)
	}
	role := "look_" + strings.TrimPrefix(u.Path, "/")
	l.sql(fmt.Sprintf(`create role %[1]s login password 'look'; grant usage on schema reactor to %[1]s;
		grant select on all tables in schema reactor, public to %[1]s`, role))
	t.Cleanup(func() { l.sql(fmt.Sprintf(`drop owned by %[1]s; drop role %[1]s`, role)) })
	u.User = url.UserPassword(role, "look")
	query := u.Query()
	query.Set("default_transaction_read_only", "on")
	u.RawQuery = query.Encode()
	for _, args := range [][]string{
		{"runs"}, {"runs", "--tag", "web", "--inbox"}, {"show", ids["stuck"]}, {"show", ids["stuck"][:36]}, {"why", ids["retried"]}, {"doctor"}, {"migrate", "status"},
	} {
		if s := call(t, append(args, "--database", u.String())...); s.code != codeOK || s.out == "" && s.err == "" {
			t.Errorf("%q: code %d, %q", args, s.code, s.err)
		}
	}
	call(t, "migrate", "down", "--yes", "--database", u.String()).want(t, codeOther, "must be owner of table")
}

// A schema that does not fit is said by every command, and what to run.
func TestSchemasThatDoNotFit(t *testing.T) {
	t.Parallel()
	l, ids := filled(t)
	commands := [][]string{{"runs"}, {"show", ids["stuck"]}, {"why", ids["stuck"]}, {"show", "0199b6f0-7a"}}
	for _, args := range commands {
		l.call(append(args, "--schema", "absent")...).want(t, codeSchema, `schema "absent" is missing: run reactorctl migrate --schema absent`)
	}
	l.sql(`insert into reactor.schema_version (version_id, is_applied) values (99, true)`)
	for _, args := range append(commands, []string{"migrate"}, []string{"migrate", "down", "--yes"}) {
		l.call(args...).want(t, codeSchema, `schema "reactor" is at version 99, newer than this release (1)`)
	}
	l.sql(`delete from reactor.schema_version where version_id = 99`)
}
