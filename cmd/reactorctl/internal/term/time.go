package term

import (
	"fmt"
	"time"
)

// Ago is how long before now t was, as people say it; "-" for the zero time.
func Ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "-"
	case d < time.Second:
		return "just now"
	}
	return Length(d) + " ago"
}

// Length is a duration in its largest unit.
func Length(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// Moment is a time in full, in UTC.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// Took is how long something lasted, to what a reader needs.
func Took(from, to time.Time) string {
	d := to.Sub(from)
	switch {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
