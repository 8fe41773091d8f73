package pgstore

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/pgreactor/reactor/engine"
)

// cursor is the place of a run in a list: the next page begins behind it.
type cursor struct {
	created int64 // microseconds since the Unix epoch; 0 for the first page
	id      string
}

func cursorOf(r engine.Record) cursor { return cursor{r.Created.UnixMicro(), r.ID} }

// String is the cursor as callers have it.
func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.created, 10) + " " + c.id))
}

// readCursor reads what String has written; "" is the first page.
func readCursor(s string) (cursor, error) {
	if s == "" {
		return cursor{id: "00000000-0000-0000-0000-000000000000"}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	created, id, _ := strings.Cut(string(text), " ")
	at, notNumber := strconv.ParseInt(created, 10, 64)
	if err != nil || notNumber != nil || at == 0 || !isUUID(id) {
		return cursor{}, fmt.Errorf("list runs: the cursor %q is none of ours: give Page.Next of the page before", s)
	}
	return cursor{at, id}, nil
}
