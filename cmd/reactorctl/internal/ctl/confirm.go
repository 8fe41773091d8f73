package ctl

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/term"
)

// confirm asks a question with yes or no. Where nobody can be asked it refuses.
func (a *app) confirm(question string) error {
	if !term.IsTerminal(a.console.In) {
		return usage("%s Nobody can be asked here: give --yes", question)
	}
	fmt.Fprintf(a.console.Err, "%s Go on? [y/N] ", term.Clean(question))
	answer, _ := bufio.NewReader(a.console.In).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return &failure{code: codeOther, text: "nothing was changed"}
	}
	return nil
}
