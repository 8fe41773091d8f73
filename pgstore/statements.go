package pgstore

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// statements are all statements of the package, by name.
var statements = map[string]string{
	"beat":            beatSQL,
	"begin pass":      beginPassSQL,
	"claim":           claimSQL,
	"claim refused":   refusedSQL,
	"claimed":         claimedSQL,
	"claimed nodes":   claimedNodesSQL,
	"counts":          countsSQL,
	"create":          createSQL,
	"created":         createdSQL,
	"dead runs":       deadRunsSQL,
	"due runs":        dueRunsSQL,
	"get":             getSQL,
	"get nodes":       getNodesSQL,
	"graph":           graphSQL,
	"leftovers":       leftoversSQL,
	"limits":          limitsSQL,
	"limits before":   limitsBeforeSQL,
	"limits inside":   limitsInsideSQL,
	"limits restored": limitsRestoredSQL,
	"list":            listSQL,
	"list by value":   listByValueSQL,
	"list inbox":      listInboxSQL,
	"processes":       processesSQL,
	"register":        registerSQL,
	"register graphs": registerGraphsSQL,
	"save":            saveSQL,
	"save step":       saveStepSQL,
	"saved":           savedSQL,
	"server":          serverSQL,
	"statuses":        statusesSQL,
	"stuck":           stuckSQL,
	"unblock":         unblockSQL,
	"unregister":      unregisterSQL,
	"unworked":        unworkedSQL,
	"wake":            wakeSQL,
}

var schemaName = regexp.MustCompile(`\breactor\.`)

// inSchema is the statements with the name of another schema in them.
func inSchema(name string) map[string]string {
	quoted := strings.ReplaceAll(pgx.Identifier{name}.Sanitize(), "$", "$$") + "."
	texts := make(map[string]string, len(statements))
	for _, text := range statements {
		texts[text] = schemaName.ReplaceAllString(text, quoted)
	}
	return texts
}

// sql is the statement as this store sends it.
func (s *Store) sql(text string) string {
	if s.texts == nil {
		return text
	}
	in, ok := s.texts[text]
	if !ok {
		panic("pgstore: a statement is not listed in statements: " + text)
	}
	return in
}

// checkName says what is wrong with the name of a schema. Every name that
// PostgreSQL takes as a quoted identifier is one.
func checkName(name string) error {
	switch {
	case len(name) > 63:
		return fmt.Errorf("pgstore: the schema name %.20q… has %d bytes, PostgreSQL takes 63", name, len(name))
	case !utf8.ValidString(name), strings.ContainsRune(name, 0):
		return fmt.Errorf("pgstore: the schema name %q is not UTF-8 or has a NUL", name)
	}
	return nil
}
