package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const secret = "s3cr3t-42"

type (
	login struct {
		User string `json:"user"`
		Pass string `json:"pass" reactor:"redact"`
	}
	account struct {
		login
		Main   *login           `json:"main"`
		All    []login          `json:"all"`
		ByName map[string]login `json:"by_name"`
		Card   card             `json:"card" reactor:"redact"`
		Odd    login            `json:"a.b"`
		Pins   [2]struct {
			Pin int `reactor:"redact"`
		} `json:"pins"`
		Plain map[string][]int
	}
	family struct {
		Name string   `reactor:"redact"`
		Kids []family `json:"kids"`
		Home *home
	}
	home    struct{ Owner family }
	ownJSON struct {
		Secret string `reactor:"redact"`
	}
)

func (ownJSON) MarshalJSON() ([]byte, error) { return []byte(`{"s":"s3cr3t-42"}`), nil }

func TestRedactionOfTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    any
		want redaction
	}{
		{login{}, redaction{"pass"}},
		{&[]map[string]*login{}, redaction{"[]{}.pass"}},
		{account{}, redaction{`a\.b.pass`, "all[].pass", "by_name{}.pass", "card", "main.pass", "pass", "pins[].Pin"}},
		{family{}, redaction{"Home.Owner>", "Name", "kids[]>"}},
		{struct{ A, B login }{}, redaction{"A.pass", "B.pass"}},
		{struct {
			login `reactor:"redact"`
			N     int
		}{}, redaction{"pass", "user"}},
		{struct{ F family }{}, redaction{"F.Home.Owner>F", "F.Name", "F.kids[]>F"}},
		{struct{ Own []ownJSON }{}, redaction{"Own[]"}},
		{ownJSON{}, redaction{""}},
		{tree{}, nil},
		{struct{ A any }{}, nil},
		{0, nil},
	} {
		if diff := cmp.Diff(c.want, redactionOf(reflect.TypeOf(c.v))); diff != "" {
			t.Errorf("%T (-want +got):\n%s", c.v, diff)
		}
	}
	if redactionOf(nil) != nil {
		t.Error("a redaction without a type")
	}
}

// The stored paths alone redact the stored JSON, byte for byte elsewhere.
//
// spec: C-15
func TestRedactionIsApplied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v         any
		raw, want string
	}{
		{login{}, `{"user":"u","pass":"x"}`, `{"user":"u","pass":"[REDACTED]"}`},
		{login{}, ` { "pass" : { "a" : [1] } , "user":1.10, "u":1e400,"PASS":null,"pa\u0073s":2} `,
			` { "pass" : "[REDACTED]" , "user":1.10, "u":1e400,"PASS":"[REDACTED]","pa\u0073s":"[REDACTED]"} `},
		{account{}, `{"all":[{"pass":1},{},{"pass":"]"}],"main":null,"card":{"Number":"1"},"a.b":{"pass":""},"Plain":{"pass":[1]}}`,
			`{"all":[{"pass":"[REDACTED]"},{},{"pass":"[REDACTED]"}],"main":null,"card":"[REDACTED]","a.b":{"pass":"[REDACTED]"},"Plain":{"pass":[1]}}`},
		{account{}, `{"by_name":{"pass":{"pass":"x","user":"pass"},"":{}},"pins":[{"Pin":1},{"Pin":2}],"pass":"x"}`,
			`{"by_name":{"pass":{"pass":"[REDACTED]","user":"pass"},"":{}},"pins":[{"Pin":"[REDACTED]"},{"Pin":"[REDACTED]"}],"pass":"[REDACTED]"}`},
		{family{}, `{"Name":"a","kids":[{"Name":"b","kids":[{"Name":"c","Home":{"Owner":{"kids":[{"Name":"d"}]}}}]}],"Age":3}`,
			`{"Name":"[REDACTED]","kids":[{"Name":"[REDACTED]","kids":[{"Name":"[REDACTED]","Home":{"Owner":{"kids":[{"Name":"[REDACTED]"}]}}}]}],"Age":3}`},
		{ownJSON{}, `{"s":"s3cr3t-42"}`, `"[REDACTED]"`},
		// not shaped as the type says: what it holds is unknown
		{account{}, `{"all":{"pass":"x"},"main":"x","by_name":["x"],"pins":7}`, `{"all":"[REDACTED]","main":"[REDACTED]","by_name":"[REDACTED]","pins":"[REDACTED]"}`},
		{login{}, `"s3cr3t-42"`, `"[REDACTED]"`},
		{login{}, `{"pass":"x"`, `"[REDACTED]"`},
		{login{}, `{"user":"s3cr3t-42`, `"[REDACTED]"`},
		{login{}, `{} {"pass":1}`, `"[REDACTED]"`},
		{login{}, `null`, `null`},
		{login{}, ``, ``},
		{tree{}, `{broken`, `{broken`},
	} {
		stored, _ := json.Marshal(redactionOf(reflect.TypeOf(c.v)))
		var paths []string
		if err := json.Unmarshal(stored, &paths); err != nil {
			t.Fatal(err)
		}
		raw := []byte(c.raw)
		if got := string(redaction(paths).apply(raw)); got != c.want {
			t.Errorf("%T %s:\n got %s\nwant %s", c.v, c.raw, got, c.want)
		}
		if string(raw) != c.raw {
			t.Errorf("%s was changed to %s", c.raw, raw)
		}
	}
}

func full() account {
	l := login{"u", secret}
	a := account{login: l, Main: &l, All: []login{l, l}, ByName: map[string]login{"n": l}, Odd: l, Card: card{"4111-1111", secret}}
	a.Pins[0].Pin, a.Pins[1].Pin = 123456, 12
	return a
}

// spec: C-840
func TestNoSecretIsLeft(t *testing.T) {
	t.Parallel()
	raw, err := encode(full(), "input", 0)
	if err != nil {
		t.Fatal(err)
	}
	shown := redactionOf(reflect.TypeFor[account]()).apply(raw)
	for _, text := range []string{secret, "4111", "123456"} {
		if bytes.Contains(shown, []byte(text)) || !bytes.Contains(raw, []byte(text)) {
			t.Errorf("%s: shown is %s, stored is %s", text, shown, raw)
		}
	}
	var back account
	if err := decode(raw, &back); err != nil || back.Pass != secret || back.Card.Holder != secret {
		t.Errorf("what a body gets is %+v, %v", back, err)
	}
	if err := decode(redaction{"all", "pins"}.apply(raw), new(any)); err != nil {
		t.Errorf("what is shown is no JSON: %v", err)
	}
}

func TestRedactionOfHugeType(t *testing.T) {
	t.Parallel()
	paths := redactionOf(reflect.TypeFor[wide[wide[wide[wide[wide[wide[wide[wide[login]]]]]]]]]())
	if len(paths) == 0 || len(paths) > 100 {
		t.Fatalf("%d paths", len(paths))
	}
	for _, last := range []string{"A", "H"} {
		raw := strings.Repeat(`{"`+last+`":`, 8) + `{"pass":1}` + strings.Repeat("}", 8)
		if got, want := string(paths.apply([]byte(raw))), strings.Replace(raw, "1", `"[REDACTED]"`, 1); got != want {
			t.Errorf("got %s", got)
		}
	}
}

func TestHides(t *testing.T) {
	t.Parallel()
	r := redactionOf(reflect.TypeFor[account]())
	for field, want := range map[string]bool{"pass": true, "PASS": true, "card": true, "all": true, "a.b": true, "user": false, "Plain": false, "a": false} {
		if r.hides(field) != want {
			t.Errorf("%s: %v", field, !want)
		}
	}
	if !(redaction{""}).hides("x") || redaction(nil).hides("x") {
		t.Error("the whole value, or none of it")
	}
}

// spec: C-841
func TestSecretsAreScrubbed(t *testing.T) {
	t.Parallel()
	raw, err := encode(full(), "input", 0)
	if err != nil {
		t.Fatal(err)
	}
	secrets := redactionOf(reflect.TypeFor[account]()).secrets(raw)
	if !slices.Contains(secrets, secret) || !slices.Contains(secrets, "123456") || slices.Contains(secrets, "12") || slices.Contains(secrets, "u") || slices.Contains(secrets, "Number") {
		t.Errorf("secrets are %q", secrets)
	}
	in := fmt.Sprintf("bank refused %s (%q), pin 123456 of 4111-1111; user u, 12", secret, secret)
	want := `bank refused [REDACTED] ("[REDACTED]"), pin [REDACTED] of [REDACTED]; user u, 12`
	if got := scrub(in, secrets); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// spec: C-841
func TestSpellingsOfSecrets(t *testing.T) {
	t.Parallel()
	type holder struct {
		Text  string `reactor:"redact"`
		Bytes []byte `reactor:"redact"`
		Num   int64  `json:",string" reactor:"redact"`
		Str   string `json:",string" reactor:"redact"`
	}
	v := holder{"a\"b&ü/c\n", []byte("raw bytes"), 987654321, "stringed"}
	raw, err := encode(v, "input", 0)
	if err != nil {
		t.Fatal(err)
	}
	secrets := redactionOf(reflect.TypeFor[holder]()).secrets(raw)
	for _, text := range []string{
		v.Text, fmt.Sprintf("%q", v.Text), fmt.Sprintf("%+q", v.Text), string(raw), url.QueryEscape(v.Text), url.PathEscape(v.Text),
		string(v.Bytes), fmt.Sprint(v.Num), v.Str, errors.New("x" + v.Text + "y").Error(),
	} {
		got := scrub(text, secrets)
		for _, rest := range []string{"b", "raw", "987", "stringed", "ü"} {
			if strings.Contains(strings.NewReplacer(`"Bytes"`, "", `"Num"`, "").Replace(got), rest) {
				t.Errorf("%s is left in %s", rest, got)
			}
		}
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		secrets []string
		want    string
	}{
		{"nothing here", nil, "nothing here"},
		{"nothing here", []string{"else", ""}, "nothing here"},
		{"abcdefgh", []string{"abcd", "bcdefg"}, "[REDACTED]h"},
		{"abcd abcdef abcd", []string{"abcd", "abcdef"}, "[REDACTED] [REDACTED] [REDACTED]"},
		{"aaaaaaa!", []string{"aaaa"}, "[REDACTED]!"},
		{"abcdabcd", []string{"abcd"}, "[REDACTED][REDACTED]"},
		{"REDACTED", []string{"REDACTED", "REDA"}, "[REDACTED]"},
	} {
		if got := scrub(c.text, c.secrets); got != c.want {
			t.Errorf("%s without %q: %s, want %s", c.text, c.secrets, got, c.want)
		}
	}
}

func FuzzRedaction(f *testing.F) {
	for _, seed := range []string{`{"pass":"x","user":[{}]}`, `{"all":[{"pass":1}]}`, `{"pass":`, `[,]`, `{"a.b":{"pass":"\u0041"}}`, `"`, `{"kids":[]}`} {
		f.Add([]byte(seed))
	}
	rules := redactionOf(reflect.TypeFor[account]())
	f.Fuzz(func(t *testing.T, raw []byte) {
		shown := rules.apply(raw)
		rules.secrets(raw)
		if malformed(raw) != "" {
			return
		}
		if !json.Valid(shown) {
			t.Fatalf("%s became %s", raw, shown)
		}
		var top map[string]any
		if json.Unmarshal(shown, &top) == nil && top["pass"] != nil && top["pass"] != redactedMark {
			t.Fatalf("%s became %s", raw, shown)
		}
	})
}
