package engine

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// spec: C-828, C-830, C-837
func TestCleanText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 10, ""},
		{"plain ü", 100, "plain ü"},
		{"a\x00b", 100, "a\uFFFDb"},
		{"a\xff\xe2\x82b", 100, "a\uFFFD\uFFFD\uFFFDb"},
		{"a\xffb", 0, "a\uFFFDb"},
		{strings.Repeat("x", 100), 100, strings.Repeat("x", 100)},
		{strings.Repeat("x", 101), 100, strings.Repeat("x", 81) + "… (20 bytes cut)"},
		{strings.Repeat("ü", 51), 100, strings.Repeat("ü", 40) + "… (22 bytes cut)"},
		{strings.Repeat("\xff", 40), 100, strings.Repeat("\uFFFD", 27) + "… (13 bytes cut)"},
	} {
		got := cleanText(c.in, c.limit)
		if got != c.want || cleanText(got, c.limit) != got {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzCleanText(f *testing.F) {
	f.Add("a\x00\xffü", 40)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 40 || limit > 1<<20 {
			return
		}
		got := cleanText(s, limit)
		if !utf8.ValidString(got) || strings.Contains(got, "\x00") || len(got) > limit || cleanText(got, limit) != got {
			t.Fatalf("%q to %d: %q", s, limit, got)
		}
	})
}

// spec: C-828, C-830, C-836
func TestCheckKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"":                         "",
		"order:7 ü":                "",
		strings.Repeat("k", 512):   "",
		strings.Repeat("s3c", 171): "the lock key is 513 bytes long, the limit is 512: use a shorter one, such as a hash of it, or raise Config.Limits.Key",
		"s3c\x00":                  "the lock key has the character U+0000 in it, which a key can't have",
		"s3c\xff":                  "the lock key is not valid UTF-8, which a key must be",
	} {
		err := checkKey(key, "lock", 512)
		if textOf(err) != want {
			t.Errorf("%.10q: %v, want %s", key, err, want)
		}
		if _, ok := errors.AsType[*EncodingError](err); ok != (want != "") {
			t.Errorf("%.10q: %#v", key, err)
		}
	}
	if err := checkKey(strings.Repeat("k", 5000), "lock", 0); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}
