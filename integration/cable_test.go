//go:build integration

package integration

import (
	"io"
	"net"
	"sync"
	"testing"
)

// cable stands between the program and a server, and can be cut: what is sent over
// it then arrives nowhere, and nobody is told. As behind a firewall that has
// forgotten them, connections of before a cut stay dead when it is over.
type cable struct {
	address, target string
	listener        net.Listener
	mu              sync.Mutex
	cutOff          bool
	pairs           map[*pair]bool
	done            chan struct{}
}

// pair is a connection to the cable and the one that it is passed on by.
type pair struct {
	mu     sync.Mutex
	dead   bool
	ends   [2]net.Conn
	passed [2]int64 // bytes, from the client and to it
}

// startCable listens on an address, "" for a free port, and passes on to another one.
func startCable(t testing.TB, address, target string) *cable {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	w := &cable{address: l.Addr().String(), target: target, listener: l, pairs: map[*pair]bool{}, done: make(chan struct{})}
	go w.accept()
	t.Cleanup(func() {
		close(w.done)
		_ = l.Close()
		w.reset()
	})
	return w
}

func (w *cable) accept() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return // the listener was closed
		}
		p := &pair{ends: [2]net.Conn{from, nil}}
		w.mu.Lock()
		p.dead = w.cutOff
		w.pairs[p] = true
		w.mu.Unlock()
		if p.dead {
			continue // it is taken, and hears nothing
		}
		to, err := net.Dial("tcp", w.target)
		if err != nil {
			_ = from.Close()
			continue
		}
		p.mu.Lock()
		p.ends[1] = to
		p.mu.Unlock()
		go w.pump(p, 0)
		go w.pump(p, 1)
	}
}

// pump passes on what comes from one end, until the cable is cut or the end closed.
func (w *cable) pump(p *pair, end int) {
	buf := make([]byte, 32<<10)
	from, to := p.ends[end], p.ends[1-end]
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		dead := p.dead
		p.passed[end] += int64(n)
		p.mu.Unlock()
		if dead {
			<-w.done // both ends stay open, and nothing is read
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			if err == io.EOF {
				if c, ok := to.(*net.TCPConn); ok {
					_ = c.CloseWrite()
					return
				}
			}
			_ = to.Close()
			return
		}
	}
}

// cut lets nothing through from now on, heal lets new connections through.
func (w *cable) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutOff = true
	for p := range w.pairs {
		p.mu.Lock()
		p.dead = true
		p.mu.Unlock()
	}
}

func (w *cable) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutOff = false
}

// reset breaks every connection off, in the middle of what it is sending.
func (w *cable) reset() (broken int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.pairs {
		p.mu.Lock()
		for _, c := range p.ends {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
				_ = tcp.Close()
				broken++
			}
		}
		p.mu.Unlock()
		delete(w.pairs, p)
	}
	return broken
}
