package engine

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// cleanText makes a text one that can be stored and shown: bytes that are no
// UTF-8 and U+0000 become the replacement character, and what is longer than the
// limit (0 is none) is cut at a character's border, with a mark that counts the
// bytes left out. With the mark it keeps to the limit, so that cleaning twice
// changes nothing. Redacted values must be scrubbed before: half of one that was
// cut would not be found.
func cleanText(s string, limit int) string {
	if limit <= 0 {
		limit = 3 * len(s)
	}
	if len(s) <= limit && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	text, used := cleanHead(s, limit)
	if used == len(s) {
		return text
	}
	text, used = cleanHead(s, limit-len(cutMark(len(s))))
	return text + cutMark(len(s)-used)
}

func cutMark(n int) string { return fmt.Sprintf("… (%d bytes cut)", n) }

// cleanHead cleans as much of s as gives a text of the limit, and says how many
// bytes of s that were.
func cleanHead(s string, limit int) (text string, used int) {
	var out strings.Builder
	for used < len(s) {
		r, size := utf8.DecodeRuneInString(s[used:])
		if r == 0 {
			r = utf8.RuneError
		}
		if out.Len()+utf8.RuneLen(r) > limit {
			break
		}
		out.WriteRune(r)
		used += size
	}
	return out.String(), used
}

// checkKey refuses a key that can't be one; kind is how messages call it, as in
// start or lock. The key itself is not shown: it may be made from a redacted
// field. An empty key is for the caller to judge, and a limit of 0 is none.
func checkKey(key, kind string, limit int) error {
	var wrong string
	switch {
	case limit > 0 && len(key) > limit:
		wrong = fmt.Sprintf("is %d bytes long, the limit is %d: use a shorter one, such as a hash of it, or raise Config.Limits.Key", len(key), limit)
	case strings.IndexByte(key, 0) >= 0:
		wrong = "has the character U+0000 in it, which a key can't have"
	case !utf8.ValidString(key):
		wrong = "is not valid UTF-8, which a key must be"
	default:
		return nil
	}
	return &EncodingError{Reason: "the " + kind + " key " + wrong}
}
