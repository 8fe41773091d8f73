package engine

import (
	"context"
	"time"
)

// A question is asked about a write whose reply was lost, until it is answered.
// An error means that the database can't be asked.
type question func(ctx context.Context) (answered bool, err error)

const (
	shortAskPause = 50 * time.Millisecond
	longAskPause  = 5 * time.Second
)

// later has a question asked until it is answered or the engine has ended. One
// goroutine asks all of them: in an outage there may be many.
func (e *Engine) later(q question) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.questions = append(e.questions, q)
	if !e.asking {
		e.asking = true
		go e.askAll()
	}
}

// askAll asks with pauses that grow as long as nothing is answered.
func (e *Engine) askAll() {
	pause := shortAskPause
	for {
		answered := e.askSome()
		if e.askedAll() {
			return
		}
		if answered {
			pause = shortAskPause
		}
		select {
		case <-e.life.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longAskPause)
	}
}

// askSome asks each once, unless the database is away. What is not answered goes
// to the end of the line.
func (e *Engine) askSome() (progress bool) {
	for range e.unanswered() {
		q := e.nextQuestion()
		ctx, cancel := context.WithTimeout(e.life, saveTime)
		answered, err := q(ctx)
		cancel()
		if !answered {
			e.mu.Lock()
			e.questions = append(e.questions, q)
			e.mu.Unlock()
		}
		if err != nil {
			return progress
		}
		progress = progress || answered
	}
	return progress
}

func (e *Engine) unanswered() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.questions)
}

// nextQuestion takes the first; only one goroutine takes any.
func (e *Engine) nextQuestion() question {
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.questions[0]
	e.questions = e.questions[1:]
	return q
}

// askedAll reports whether there is nothing left to ask, and ends the asking.
func (e *Engine) askedAll() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.questions) == 0 {
		e.asking, e.questions = false, nil
	}
	return !e.asking
}
