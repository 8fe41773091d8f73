package migrations

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/migrations/schema"
)

// The files are written for schema "reactor", so that what is in the repository
// is SQL that runs; another schema is put in when a file is read.
var (
	defaultSchema = regexp.MustCompile(`\breactor\.`)
	annotation    = regexp.MustCompile(`(?m)^-- \+goose (Up|Down)[ \t]*$`)
	noTransaction = regexp.MustCompile(`(?m)^-- \+goose NO TRANSACTION[ \t]*$`)
)

// inSchema is sql for the schema called name.
func inSchema(sql, name string) string {
	if name == schema.Default {
		return sql
	}
	return defaultSchema.ReplaceAllLiteralString(sql, quote(name)+".")
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// rendered are files with their text changed as they are read.
type rendered struct {
	fs.FS
	render func(string) string
}

// Open is of fs.FS.
func (r rendered) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return f, err
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return renderedFile{File: f, text: strings.NewReader(r.render(string(text)))}, nil
}

type renderedFile struct {
	fs.File
	text *strings.Reader
}

// Read is of fs.File.
func (f renderedFile) Read(p []byte) (int, error) { return f.text.Read(p) }

// transactionStart makes the transaction of a migration depend on no setting of
// the role and the database, and not keep others waiting for long. Where there is
// no transaction, because an index is built concurrently, it does nothing.
var transactionStart = "\nset transaction isolation level read committed, read write;\n" + searchPath + limits

// forGoose are the files as the provider runs them: for the migrator's schema,
// and each of their transactions with transactionStart at its beginning.
func (m *Migrator) forGoose() fs.FS {
	return rendered{FS: m.files, render: func(text string) string {
		return annotation.ReplaceAllString(inSchema(text, m.schema), "$0"+transactionStart)
	}}
}

// A file is one numbered migration, in its two parts.
type file struct {
	version  int64
	name     string
	up, down string
	alone    bool // it can't run in a transaction
}

// readFiles returns all migrations of files, lowest version first.
func readFiles(files fs.FS) ([]file, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	all := make([]file, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		f, err := parseFile(name, text)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func parseFile(name string, text []byte) (file, error) {
	number, _, _ := strings.Cut(name, "_")
	version, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return file{}, fmt.Errorf("migration %s: its name has no number", name)
	}
	marks := annotation.FindAllIndex(text, -1)
	if len(marks) != 2 {
		return file{}, fmt.Errorf("migration %s: it has no up part and down part", name)
	}
	return file{
		version: version,
		name:    name,
		up:      string(bytes.TrimSpace(text[marks[0][1]:marks[1][0]])),
		down:    string(bytes.TrimSpace(text[marks[1][1]:])),
		alone:   noTransaction.Match(text),
	}, nil
}
