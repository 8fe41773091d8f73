package engine

import (
	"context"
	"slices"
	"time"
)

// Claim makes the process the owner of those of the wanted runs that it may
// have, loads them, and says of the others why not.
func (m *memory) Claim(ctx context.Context, c Claim) (claims Claims, err error) {
	err = m.change(ctx, func(now time.Time) (memoryChange, error) {
		return memoryChange{wakes: c.Rest, apply: func() { claims = m.claim(now, c) }}, nil
	})
	return claims, err
}

func (m *memory) claim(now time.Time, c Claim) Claims {
	var out Claims
	for _, w := range c.Wants {
		r := m.runs[w.Run]
		if why := m.refuses(now, r, c, w); why != "" {
			out.Refused = append(out.Refused, refusal(w.Run, why, r))
			continue
		}
		if r.Owner != w.Token { // else it is a repeat of this claim
			r.own(now, c.Process, w)
		}
		out.Claimed = append(out.Claimed, Claimed{Record: *m.load(r, now), TakenFrom: r.takenFrom, TakenFromProcess: r.takenFromProcess})
	}
	return out
}

// refuses says why w can't have r; "" if it can.
func (m *memory) refuses(now time.Time, r *memoryRun, c Claim, w Want) Why {
	switch {
	case r == nil:
		return WhyGone
	case r.Status.Final():
		return WhyFinal
	case !m.alive(c.Process, now):
		return WhyNoLease
	case r.Owner == w.Token && w.Token != "" && r.Process == c.Process:
		return ""
	case r.Owner != "" && m.alive(r.Process, now):
		return WhyOwned
	case !slices.Contains(c.Knows, r.knownAs()):
		return WhyUnknown
	case r.Suspended != "":
		return WhyStopped
	case r.Owner != "": // of a dead process
		return ""
	case r.Blocked != "" && !r.isDue(now):
		return WhyStopped
	case r.Status == Paused || !r.isDue(now):
		return WhyNotDue
	}
	return ""
}

func refusal(run string, why Why, r *memoryRun) Refusal {
	if r == nil {
		return Refusal{Run: run, Why: why}
	}
	return Refusal{Run: run, Why: why, Status: r.Status, Reactor: r.Reactor}
}

// own makes w the owner of r.
func (r *memoryRun) own(now time.Time, process string, w Want) {
	r.takenFrom, r.takenFromProcess = r.Owner, r.Process
	r.Owner, r.Process, r.writeID = w.Token, process, w.WriteID
	r.Version++
	r.notDue()
	if r.Status == Pending {
		r.Status = Running
	}
	if r.Started.IsZero() {
		r.Started = now
	}
}

func (r *memoryRun) isDue(now time.Time) bool { return !r.Due.IsZero() && !r.Due.After(now) }
