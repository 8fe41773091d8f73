// Package pgproxy is a proxy between PostgreSQL clients and their server, for
// tests: it counts messages by their type, and so round trips; it cuts
// connections; and it swallows the reply of a COMMIT, after which nobody but
// the server knows that it was done.
//
// It reads what passes, so nothing is encrypted: a client that asks for TLS is
// told that there is none.
//
// Imports: the standard library; must not know: anything of ours.
package pgproxy

import (
	"fmt"
	"net"
	"net/url"
	"sync"
)

// A Proxy listens on a port of its own and passes everything on to one server.
type Proxy struct {
	network, server string
	listener        net.Listener
	passing         sync.WaitGroup

	mu      sync.Mutex
	links   map[*link]bool
	refuses bool            // new connections
	swallow []chan struct{} // replies of COMMIT to come that are swallowed
	counts  map[message]int
	tags    map[string]int
}

// A Direction is the way of a message.
type Direction byte

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Types of messages. What ends a round trip is Ready.
const (
	Parse    byte = 'P' // to the server
	Bind     byte = 'B' // to the server
	Execute  byte = 'E' // to the server
	Query    byte = 'Q' // to the server, in the simple protocol
	Sync     byte = 'S' // to the server
	Complete byte = 'C' // to the client: a statement is done
	Error    byte = 'E' // to the client
	Ready    byte = 'Z' // to the client: the server waits
)

type message struct {
	way  Direction
	kind byte
}

// Start is a proxy in front of the server at address, as net.Dial takes them
// ("tcp", "127.0.0.1:5432"; "unix", "/tmp/.s.PGSQL.5432"). Close ends it.
func Start(network, address string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a proxy: %w", err)
	}
	p := &Proxy{
		network: network, server: address, listener: l,
		links: map[*link]bool{}, counts: map[message]int{}, tags: map[string]int{},
	}
	p.passing.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Before is a proxy in front of the server of a postgres:// URL with a host and
// a port, and the URL through the proxy.
func Before(server string) (p *Proxy, through string, err error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Port() == "" {
		return nil, "", fmt.Errorf("start a proxy: want a URL with a host and a port")
	}
	if p, err = Start("tcp", u.Host); err != nil {
		return nil, "", err
	}
	u.Host = p.Addr()
	return p, u.String(), nil
}

// Close cuts all connections and ends the proxy.
func (p *Proxy) Close() {
	p.Refuse(true)
	p.listener.Close()
	p.Cut()
	p.passing.Wait()
}

// Cut closes all connections that there are, without a word to either side.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Refuse has new connections closed at once, or no longer. Those that there are
// stay.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = refuse
}

// DropCommit swallows the next reply of a COMMIT: the transaction is committed,
// and its client finds its connection cut. The channel is closed when it has
// happened. Called n times it swallows n replies.
func (p *Proxy) DropCommit() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan struct{})
	p.swallow = append(p.swallow, done)
	return done
}

// Count is how many messages of a type have passed since the start.
func (p *Proxy) Count(way Direction, kind byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[message{way, kind}]
}

// Tagged is how many statements have been done with a command tag, as in COMMIT
// or UPDATE 1, since the start.
func (p *Proxy) Tagged(tag string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tags[tag]
}

// accept makes a link of each connection.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.passing.Go(func() { p.serve(client) })
	}
}

// serve passes messages on until one side is gone.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial(p.network, p.server)
	if err != nil {
		return
	}
	defer server.Close()
	l := &link{proxy: p, client: client, server: server}
	if !p.add(l) {
		return
	}
	defer p.remove(l)
	l.pass()
}

// add keeps l where Cut finds it, if connections are not refused.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.refuses {
		p.links[l] = true
	}
	return !p.refuses
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// count notes a message.
func (p *Proxy) count(way Direction, kind byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[message{way, kind}]++
}

// completed notes a command tag and reports whether it is to be swallowed.
func (p *Proxy) completed(tag string) (swallow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tags[tag]++
	if tag != "COMMIT" || len(p.swallow) == 0 {
		return false
	}
	close(p.swallow[0])
	p.swallow = p.swallow[1:]
	return true
}
