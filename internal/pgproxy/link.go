package pgproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
)

// link is one connection of a client and the one to the server for it.
type link struct {
	proxy          *Proxy
	client, server net.Conn
}

func (l *link) cut() {
	l.client.Close()
	l.server.Close()
}

// pass passes messages on in both directions, until one of them ends.
func (l *link) pass() {
	from := bufio.NewReader(l.client)
	if err := l.begin(from); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.forward(ToServer, from, l.server); l.cut() })
	both.Go(func() { l.forward(ToClient, bufio.NewReader(l.server), l.client); l.cut() })
	both.Wait()
}

// Requests that come in place of the first message.
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

const longestStart = 10_000 // bytes, as in the server

// begin passes on the first message, which has no type.
func (l *link) begin(from *bufio.Reader) error {
	for {
		var head [8]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return err
		}
		length, code := binary.BigEndian.Uint32(head[:4]), binary.BigEndian.Uint32(head[4:])
		if length < 8 || length > longestStart {
			return errors.New("no first message of a PostgreSQL client")
		}
		if code == sslRequest || code == gssRequest {
			if _, err := l.client.Write([]byte{'N'}); err != nil {
				return err
			}
			continue
		}
		if _, err := l.server.Write(head[:]); err != nil {
			return err
		}
		_, err := io.CopyN(l.server, from, int64(length)-8)
		return err
	}
}

// forward passes messages on in one direction.
func (l *link) forward(way Direction, from *bufio.Reader, to net.Conn) {
	out := bufio.NewWriter(to)
	for {
		if from.Buffered() == 0 && out.Flush() != nil {
			return
		}
		if err := l.next(way, from, out); err != nil {
			out.Flush() // of an error the last words still count
			return
		}
	}
}

var errSwallowed = errors.New("swallowed")

// next passes one message on: a type, a length that counts itself, and so many
// bytes less four.
func (l *link) next(way Direction, from *bufio.Reader, out *bufio.Writer) error {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return err
	}
	var body io.Reader = io.LimitReader(from, int64(binary.BigEndian.Uint32(head[1:]))-4)
	if way == ToClient && head[0] == Complete {
		tag, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		if l.proxy.completed(string(bytes.TrimRight(tag, "\x00"))) {
			return errSwallowed
		}
		body = bytes.NewReader(tag)
	}
	l.proxy.count(way, head[0])
	if _, err := out.Write(head[:]); err != nil {
		return err
	}
	_, err := io.Copy(out, body)
	return err
}
