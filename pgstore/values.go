package pgstore

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgreactor/reactor/engine"
)

// column is one value of each row, as an array parameter. It is never nil,
// because an array that is null is something else than an empty one.
func column[R, V any](rows []R, value func(*R) V) []V {
	out := make([]V, len(rows))
	for i := range rows {
		out[i] = value(&rows[i])
	}
	return out
}

// flag is a truth as a parameter.
func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// micros is a span as a parameter.
func micros(d time.Duration) int64 { return d.Microseconds() }

// isUUID reports whether s is a UUID in the form that the database prints: a
// text of another form is the id of nothing.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !isHex(c) {
				return false
			}
		}
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f'
}

// uuidOr is s, or "" if s is no UUID.
func uuidOr(s string) string {
	if isUUID(s) {
		return s
	}
	return ""
}

// known leaves out what is no UUID and so names no run.
func known(runs []string) []string {
	out := make([]string, 0, len(runs))
	for _, id := range runs {
		if isUUID(id) {
			out = append(out, id)
		}
	}
	return out
}

// timeOf scans a time, which is zero for null.
type timeOf struct{ to *time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (t timeOf) ScanTimestamptz(v pgtype.Timestamptz) error {
	*t.to = time.Time{}
	if v.Valid {
		*t.to = v.Time.UTC()
	}
	return nil
}

// jsonOf scans a value as it was stored, nil for null.
func jsonOf(to *json.RawMessage) *[]byte { return (*[]byte)(to) }

// checkTexts refuses parameters that no text column takes: the server would
// refuse them too, but with an entry in its log.
func checkTexts(arguments []any) error {
	for _, a := range arguments {
		switch v := a.(type) {
		case string:
			if !isText(v) {
				return errNoText
			}
		case []string:
			if slices.ContainsFunc(v, func(s string) bool { return !isText(s) }) {
				return errNoText
			}
		}
	}
	return nil
}

var errNoText = &storeError{text: "a text in it is not UTF-8 or has a NUL", cause: []error{engine.ErrUnstorable}}

func isText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
