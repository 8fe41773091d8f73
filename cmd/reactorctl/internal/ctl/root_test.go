package ctl

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pgreactor/reactor/migrations/schema"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	root := newRoot(&app{})
	for _, cmd := range append(root.Commands(), root) {
		if !cmd.Runnable() {
			continue
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		s := call(t, append(path, "--help")...)
		s.want(t, codeOK, "")
		if !strings.Contains(s.out, cmd.Short) && !strings.Contains(s.out, strings.Split(cmd.Long, "\n")[0]) {
			t.Errorf("%s --help says\n%s", cmd.CommandPath(), s.out)
		}
		wantNarrow(t, cmd.Long+"\n"+cmd.Example)
	}
	call(t).want(t, codeOK, "")
	codes := call(t, "help", "exit-codes")
	codes.want(t, codeOK, "")
	for _, code := range []string{"0  ", "1  ", "2  ", "3  ", "4  ", "6  ", "7  "} {
		if !strings.Contains(codes.out, "\n  "+code) {
			t.Errorf("exit code %sis not in\n%s", code, codes.out)
		}
	}
}

func TestCommandsThatAreNotThere(t *testing.T) {
	t.Parallel()
	call(t, "rnus").want(t, codeUsage, `reactorctl has no command "rnus": did you mean runs?`)
	call(t, "xyzzy").want(t, codeUsage, `reactorctl has no command "xyzzy" (reactorctl --help lists them)`)
	call(t, "--nonsense").want(t, codeUsage, "unknown flag: --nonsense")
	call(t, "version", "now").want(t, codeUsage, "takes no argument")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	var v versionView
	s := call(t, "version", "-o", "json")
	if err := json.Unmarshal([]byte(s.out), &v); err != nil || v.Schema != schema.Latest || v.Version == "" || !strings.HasPrefix(v.Go, "go") {
		t.Errorf("got %+v, %v of %q", v, err, s.out)
	}
	if text := call(t, "version"); !strings.HasPrefix(text.out, "reactorctl ") || !strings.Contains(text.out, "\nschema     1\n") {
		t.Errorf("got %q", text.out)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if s := call(t, "completion", shell); s.code != codeOK || len(s.out) < 1000 {
			t.Errorf("completion %s: code %d, %d bytes", shell, s.code, len(s.out))
		}
	}
	for _, c := range []struct{ args, want string }{
		{"ru", "runs\t"},
		{"runs --status fa", "failed\n"},
		{"runs --kind ", "element\n"},
		{"runs -o ", "json\n"},
		{"migrate ", "status\t"},
	} {
		s := call(t, append([]string{cobra.ShellCompRequestCmd}, strings.Split(c.args, " ")...)...)
		if !strings.Contains(s.out, c.want) {
			t.Errorf("%q completes to %q, want %q", c.args, s.out, c.want)
		}
	}
}

func TestCompletionOfRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	id := l.run("book", "completed")
	s := call(t, cobra.ShellCompRequestCmd, "show", "--database", l.url, "0199")
	if !strings.HasPrefix(s.out, id+"\tshop completed, ") {
		t.Errorf("got %q %q", s.out, s.err)
	}
}
