package migrations

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/pgreactor/reactor/migrations/schema"
)

// A Script says what SQL prints.
type Script struct {
	Schema string // of our tables. Default "reactor"
	After  int64  // the version that is there already. Default 0: nothing is there
	Down   bool   // the way back to After
}

// SQL prints our migrations, without River's, for a tool other than ours. What it
// prints is taken by psql as it is and by goose in a file with a number of the
// user's own: the way up is that file, and the way back may be appended to it to
// be its down part. Both keep our version table, so that the library and a
// Migrator know what there is.
//
// There is no script with both ways in it because psql, to which goose's
// annotations are comments, would run the way back after the way up.
func SQL(w io.Writer, s Script) error {
	if s.Schema == "" {
		s.Schema = schema.Default
	}
	if err := schema.ValidName(s.Schema); err != nil {
		return err
	}
	files, err := fs.Sub(embedded, "sql")
	if err != nil {
		return err
	}
	all, err := readFiles(files)
	if err != nil {
		return err
	}
	return s.print(w, all)
}

func (s Script) print(w io.Writer, all []file) error {
	latest := all[len(all)-1].version
	if s.After < 0 || s.After >= latest {
		return fmt.Errorf("there is no migration after version %d: the latest is %d", s.After, latest)
	}
	files := slices.DeleteFunc(slices.Clone(all), func(f file) bool { return f.version <= s.After })
	text := s.upText(files)
	if s.Down {
		text = s.downText(files)
	}
	_, err := io.WriteString(w, inSchema(text, s.Schema))
	return err
}

const versions = "reactor." + schema.VersionTable

func (s Script) upText(files []file) string {
	together, outside := "--single-transaction ", ""
	if slices.ContainsFunc(files, func(f file) bool { return f.alone }) {
		together, outside = "", "-- +goose NO TRANSACTION\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `-- Schema %q from version %d to %d.
-- goose: a file of your migrations; the output of sql --down may follow in it.
-- psql: psql %s--set ON_ERROR_STOP=1 --file THIS
-- River's tables: river migrate-get --all --up
%s
-- +goose Up
`, s.Schema, s.After, files[len(files)-1].version, together, outside)
	if s.After == 0 {
		fmt.Fprintf(&b, "create schema if not exists %s;\n\n%s\n\n%s\n\n", quote(s.Schema), versionTable, versionZero)
	}
	for _, f := range files {
		fmt.Fprintf(&b, "-- %s\n%s\n\n", f.name, f.up)
		fmt.Fprintf(&b, "insert into %s (version_id, is_applied) values (%d, true);\n\n", versions, f.version)
	}
	return b.String()
}

func (s Script) downText(files []file) string {
	var b strings.Builder
	b.WriteString("-- +goose Down\n")
	fmt.Fprintf(&b, "-- Schema %q from version %d back to %d.\n\n", s.Schema, files[len(files)-1].version, s.After)
	for _, f := range slices.Backward(files) {
		fmt.Fprintf(&b, "-- %s\n%s\n\n", f.name, f.down)
		fmt.Fprintf(&b, "delete from %s where version_id = %d;\n\n", versions, f.version)
	}
	return b.String()
}
