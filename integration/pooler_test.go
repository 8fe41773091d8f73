package integration

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// A pooler is what PgBouncer is in transaction mode: a client gets a session of
// the server for one transaction, and the next one that waited longest for the
// next, so that nothing that is left in a session is there afterwards.
type pooler struct {
	listener net.Listener
	dial     func() (*session, error)
	free     chan *session
	serving  sync.WaitGroup

	mu      sync.Mutex
	clients map[net.Conn]bool
	lent    map[uint32]int // transactions by session
}

// session is one of the server.
type session struct {
	net.Conn
	in       *bufio.Reader
	pid      uint32
	hijacked *pgconn.HijackedConn
}

// newPooler is one with so many sessions before the database at a URL, and the
// URL through it.
func newPooler(t *testing.T, server string, sessions int) (p *pooler, through string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &pooler{listener: l, free: make(chan *session, sessions), clients: map[net.Conn]bool{}, lent: map[uint32]int{}}
	p.dial = func() (*session, error) { return dial(server) }
	for range sessions {
		s, err := p.dial()
		if err != nil {
			t.Fatal(err)
		}
		p.free <- s
	}
	p.serving.Go(p.accept)
	t.Cleanup(p.close)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = l.Addr().String()
	return p, u.String()
}

func dial(server string) (*session, error) {
	c, err := pgconn.Connect(context.Background(), server)
	if err != nil {
		return nil, err
	}
	h, err := c.Hijack()
	if err != nil {
		return nil, err
	}
	return &session{Conn: h.Conn, in: bufio.NewReader(h.Conn), pid: h.PID, hijacked: h}, nil
}

func (p *pooler) close() {
	p.listener.Close()
	p.mu.Lock()
	for c := range p.clients {
		c.Close()
	}
	p.mu.Unlock()
	p.serving.Wait()
	for len(p.free) > 0 {
		(<-p.free).Close()
	}
}

func (p *pooler) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.clients[c] = true
		p.mu.Unlock()
		p.serving.Go(func() {
			defer c.Close()
			(&pooled{pooler: p, client: c, in: bufio.NewReader(c)}).serve()
		})
	}
}

// pooled is one connection of a client.
type pooled struct {
	pooler *pooler
	client net.Conn
	in     *bufio.Reader

	mu      sync.Mutex
	session *session      // of the transaction; nil between two
	asked   int           // answers to come
	idle    chan struct{} // closed when the session is given back
}

func (c *pooled) serve() {
	if c.greet() != nil {
		return
	}
	for {
		kind, message, err := readMessage(c.in)
		if err != nil || kind == 'X' {
			break
		}
		if c.send(kind, message) != nil {
			break
		}
	}
	c.abandon()
}

// greet answers the first message as a server does that trusts everybody.
func (c *pooled) greet() error {
	for {
		var head [8]byte
		if _, err := io.ReadFull(c.in, head[:]); err != nil {
			return err
		}
		switch code := binary.BigEndian.Uint32(head[4:]); code {
		case 80877103, 80877104: // encryption
			if _, err := c.client.Write([]byte{'N'}); err != nil {
				return err
			}
			continue
		case 80877102:
			return errors.New("a request to cancel, which is not passed on")
		}
		if _, err := io.CopyN(io.Discard, c.in, int64(binary.BigEndian.Uint32(head[:4]))-8); err != nil {
			return err
		}
		return c.welcome()
	}
}

func (c *pooled) welcome() error {
	s := <-c.pooler.free
	answer := message('R', []byte{0, 0, 0, 0})
	for name, value := range s.hijacked.ParameterStatuses {
		answer = append(answer, message('S', fmt.Appendf(nil, "%s\x00%s\x00", name, value))...)
	}
	c.pooler.free <- s
	answer = append(answer, message('K', make([]byte, 8))...)
	_, err := c.client.Write(append(answer, message('Z', []byte{'I'})...))
	return err
}

// send passes a message on, over the session of the transaction or the next
// that is free.
func (c *pooled) send(kind byte, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil {
		c.session, c.idle = <-c.pooler.free, make(chan struct{})
		c.pooler.note(c.session)
		c.pooler.serving.Go(c.answers(c.session, c.idle))
	}
	if kind == 'S' || kind == 'Q' {
		c.asked++
	}
	_, err := c.session.Write(message(kind, body))
	return err
}

func (p *pooler) note(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lent[s.pid]++
}

// answers passes on what the server says, until the transaction is over.
func (c *pooled) answers(s *session, idle chan struct{}) func() {
	return func() {
		defer close(idle)
		for {
			kind, body, err := readMessage(s.in)
			if err != nil {
				c.client.Close()
				return
			}
			over := kind == 'Z' && c.answered(body[0] == 'I')
			if over {
				c.pooler.free <- s
			}
			if _, err := c.client.Write(message(kind, body)); err != nil || over {
				return
			}
		}
	}
}

// answered notes an answer, and says whether the transaction is over with it.
func (c *pooled) answered(outside bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked--
	if c.asked > 0 || !outside {
		return false
	}
	c.session = nil
	return true
}

// abandon replaces the session of a transaction whose client has gone.
func (c *pooled) abandon() {
	c.mu.Lock()
	s, idle := c.session, c.idle
	c.mu.Unlock()
	if s == nil {
		return
	}
	s.Close()
	<-idle
	if s, err := c.pooler.dial(); err == nil {
		c.pooler.free <- s
	}
}

func readMessage(from *bufio.Reader) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return 0, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	_, err = io.ReadFull(from, body)
	return head[0], body, err
}

func message(kind byte, body []byte) []byte {
	m := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return append(m, body...)
}
