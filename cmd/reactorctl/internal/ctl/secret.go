package ctl

import (
	"regexp"
	"strconv"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
)

var secret = regexp.MustCompile(`(\w+://|(?i:password)=)\S*`)

// masked is text without connection strings and passwords.
func masked(text string) string { return secret.ReplaceAllString(text, "$1…") }

// quoted is an argument as a message may repeat it.
func quoted(argument string) string { return strconv.Quote(term.Cut(masked(argument), 64)) }
