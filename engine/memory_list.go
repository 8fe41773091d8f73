package engine

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// List gives headers, newest first, and the cursor of the next page.
func (m *memory) List(ctx context.Context, q Query) (page []Record, next string, err error) {
	after, err := readMemoryCursor(q.Cursor)
	if err != nil {
		return nil, "", err
	}
	err = m.look(ctx, func(now time.Time) {
		runs := m.matching(q, now, after)
		if limit := q.limit(); len(runs) > limit {
			runs = runs[:limit]
			next = cursorOf(runs[limit-1]).String()
		}
		for _, r := range runs {
			page = append(page, m.head(r, now))
		}
	})
	return page, next, err
}

// matching is the runs of q behind the cursor, newest first.
func (m *memory) matching(q Query, now time.Time, after *memoryCursor) []*memoryRun {
	var runs []*memoryRun
	for _, r := range m.runs {
		if r.matches(q, now) && (after == nil || after.before(cursorOf(r))) {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *memoryRun) int { return cursorOf(b).compare(cursorOf(a)) })
	return runs
}

func (q Query) limit() int {
	if q.Limit <= 0 {
		return 50
	}
	return min(q.Limit, 500)
}

func (r *memoryRun) matches(q Query, now time.Time) bool {
	return (q.Reactor == "" || r.Reactor == q.Reactor) &&
		(len(q.Status) == 0 || slices.Contains(q.Status, r.Status)) &&
		(r.Kind == Kind(q.Kind) || q.Kind == "" && r.Kind == Root) &&
		strings.HasPrefix(r.ID, q.IDPrefix) &&
		(q.Since.IsZero() || !r.Created.Before(q.Since)) &&
		(q.Until.IsZero() || r.Created.Before(q.Until)) &&
		(!q.Blocked || r.Blocked != "") &&
		(!q.Inbox || r.inInbox()) &&
		(q.Waiting == "" || q.Waiting == "time" && r.waits(now)) &&
		r.hasAll(q.Tags, q.Input)
}

// hasAll reports whether r has all the tags and all the fields.
func (r *memoryRun) hasAll(tags []string, fields map[string]string) bool {
	for _, tag := range tags {
		if !slices.Contains(r.Tags, tag) {
			return false
		}
	}
	for field, want := range fields {
		if got, ok := r.fields[field]; !ok || got != want {
			return false
		}
	}
	return true
}

// waits reports whether r waits for a time.
func (r *memoryRun) waits(now time.Time) bool {
	return !r.Status.Final() && r.Owner == "" && r.Due.After(now)
}

// inInbox reports whether r waits for an operator: it is blocked or suspended,
// or something could not be rolled back.
func (r *memoryRun) inInbox() bool {
	if r.Blocked != "" || r.Suspended != "" {
		return true
	}
	for _, n := range r.nodes {
		if n.HookState == HookFailed {
			return true
		}
	}
	return false
}

// memoryCursor is the place of a run in a list.
type memoryCursor struct {
	created int64 // microseconds
	id      string
}

func cursorOf(r *memoryRun) memoryCursor { return memoryCursor{r.Created.UnixMicro(), r.ID} }

func (c memoryCursor) compare(o memoryCursor) int {
	if c.created != o.created {
		return int(min(max(c.created-o.created, -1), 1))
	}
	return strings.Compare(c.id, o.id)
}

// before reports whether o comes after c in a list that begins with the newest.
func (c memoryCursor) before(o memoryCursor) bool { return o.compare(c) < 0 }

// String is the cursor as callers have it.
func (c memoryCursor) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.created, 10) + " " + c.id))
}

func readMemoryCursor(s string) (*memoryCursor, error) {
	if s == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	created, id, ok := strings.Cut(string(text), " ")
	at, notNumber := strconv.ParseInt(created, 10, 64)
	if err != nil || !ok || notNumber != nil {
		return nil, fmt.Errorf("list runs: the cursor %q is none of ours: give Page.Next of the page before", s)
	}
	return &memoryCursor{at, id}, nil
}
