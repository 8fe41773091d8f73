package pgtest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/pgreactor/reactor/internal/pgdev"
)

// logPrefix begins each line of the server's log: SQLSTATE, time, process and,
// in a session, database and application_name.
const logPrefix = "%e %m [%p] %q%d app=[%a] "

// forbidden are the SQLSTATEs that the library must never cause.
var forbidden = map[string]string{
	"40P01": "deadlock",
	"25P02": "statement in an aborted transaction",
	"25P03": "idle in transaction",
	"22P05": "character that the database can't represent",
	"22021": "character that is not in the encoding",
	"22003": "number out of range",
}

var (
	logEntry  = regexp.MustCompile(`^([0-9A-Z]{5}) \d{4}-.*? \[\d+\] (?:\S* app=\[(.*?)\] )?(ERROR|FATAL|PANIC|WARNING|LOG|NOTICE|INFO):  `)
	logDetail = regexp.MustCompile(`^\t|^[0-9A-Z]{5} \d{4}-.*? \[\d+\] .*?(DETAIL|HINT|CONTEXT|STATEMENT|QUERY|LOCATION):  `)
)

// CheckLog lists the entries of a server's log that must not be there, with
// their details: deadlocks, statements in aborted transactions, idle
// transactions that were ended, texts and numbers that the database refused.
// Sessions whose application_name begins with Expected are left out. The log
// must be one of a server of this package.
func CheckLog(log io.Reader) ([]string, error) {
	var found []string
	inEntry := false
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 64<<20) // a statement is logged whole
	for lines.Scan() {
		line := lines.Text()
		if entry := logEntry.FindStringSubmatch(line); entry != nil {
			what := forbidden[entry[1]]
			if inEntry = what != "" && !strings.HasPrefix(entry[2], Expected); inEntry {
				found = append(found, fmt.Sprintf("the server's log has a %s:\n\t%s", what, short(line)))
			}
			continue
		}
		if inEntry = inEntry && logDetail.MatchString(line); inEntry {
			found[len(found)-1] += "\n\t" + short(strings.TrimSpace(line))
		}
	}
	if err := lines.Err(); err != nil {
		return found, fmt.Errorf("read the server's log: %w", err)
	}
	return found, nil
}

// short cuts a line that would fill the screen.
func short(line string) string {
	const most = 1000
	if len(line) <= most {
		return line
	}
	return line[:most] + " …"
}

// checkServerLog is CheckLog of the log of a server.
func checkServerLog(s *pgdev.Server) ([]string, error) {
	log, err := os.Open(s.LogFile())
	if err != nil {
		return nil, fmt.Errorf("read the server's log: %w", err)
	}
	defer log.Close()
	return CheckLog(log)
}
