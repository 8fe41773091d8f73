package pgdev

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// fastSettings give up what only a crash of the machine would need. Commits
// stay synchronous: otherwise a crash of the server alone would lose some.
var fastSettings = map[string]string{
	"fsync":           "off",
	"max_connections": "300",
}

var settingName = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)

// checkSettings says which of the names can't be set.
func checkSettings(settings map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		switch {
		case !settingName.MatchString(name):
			return fmt.Errorf("%q is not a name of a setting of PostgreSQL: write it in lower case", name)
		case name == "port" || name == "listen_addresses" || name == "unix_socket_directories":
			return fmt.Errorf("setting %s: where the server listens is decided by Options.Port", name)
		case strings.ContainsAny(settings[name], "\n\r\x00"):
			return fmt.Errorf("setting %s: its value has more than one line", name)
		}
	}
	return nil
}

// configuration is the text of server.conf; the last line of a name counts.
func configuration(temporary bool, port int, settings map[string]string) string {
	var text strings.Builder
	if temporary {
		writeSettings(&text, fastSettings)
	}
	writeSettings(&text, settings)
	writeSettings(&text, map[string]string{
		"port":                    fmt.Sprint(port),
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "", // their paths would have to be short
	})
	return text.String()
}

func writeSettings(text *strings.Builder, settings map[string]string) {
	quote := strings.NewReplacer(`'`, `''`, `\`, `\\`)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(text, "%s = '%s'\n", name, quote.Replace(settings[name]))
	}
}
