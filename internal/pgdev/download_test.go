//go:build unix

package pgdev

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// repository serves one archive under every name, as a Maven repository does;
// testdata/server.txz has programs that only say their version.
func repository(t *testing.T, status int) (url string, fetched *atomic.Int32) {
	t.Helper()
	archive, err := os.ReadFile("testdata/server.txz")
	if err != nil {
		t.Fatal(err)
	}
	var jar bytes.Buffer
	w := zip.NewWriter(&jar)
	file, err := w.Create("postgres-test.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(archive); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	fetched = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			fmt.Fprintf(w, "%x", sha256.Sum256(jar.Bytes()))
			return
		}
		fetched.Add(1)
		w.Write(jar.Bytes())
	}))
	t.Cleanup(server.Close)
	return server.URL, fetched
}

// bare is a machine without a server, that downloads from url.
func bare(t *testing.T, url string) machine {
	t.Helper()
	m := here(t)
	cache := filepath.Join(filepath.Dir(dataDir(t)), "cache")
	m.search = search{places: []string{cache + "/*/bin"}}
	m.download = download{cache: cache, repository: url}
	return m
}

func TestDownloadOnce(t *testing.T) {
	t.Parallel()
	url, fetched := repository(t, http.StatusOK)
	m := bare(t, url)
	for range 2 {
		b, err := m.find(t.Context(), Options{Download: true}, "")
		if err != nil {
			t.Fatal(err)
		}
		if b.version != "18.3" || filepath.Dir(filepath.Dir(b.dir)) != m.download.cache {
			t.Errorf("got %+v", b)
		}
	}
	if fetched.Load() != 1 {
		t.Errorf("fetched %d times, want once", fetched.Load())
	}
	if left, err := os.ReadDir(m.download.cache); err != nil || len(left) != 1 {
		t.Errorf("the cache has %v, %v, want the server alone", left, err)
	}
}

func TestDownloadOnlyIfAllowed(t *testing.T) {
	t.Parallel()
	url, fetched := repository(t, http.StatusOK)
	if _, err := bare(t, url).find(t.Context(), Options{}, ""); !errors.Is(err, ErrNoServer) {
		t.Errorf("got %v", err)
	}
	if fetched.Load() != 0 {
		t.Error("it was fetched all the same")
	}
}

func TestDownloadFails(t *testing.T) {
	t.Parallel()
	refused := httptest.NewServer(nil)
	refused.Close()
	missing, _ := repository(t, http.StatusNotFound)
	for name, c := range map[string]struct{ url, want string }{
		"offline":    {refused.URL, "unable to connect"},
		"no version": {missing, "no version found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := bare(t, c.url)
			_, err := m.start(t.Context(), Options{Download: true})
			if !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--database") {
				t.Errorf("got %v, want the ways to a server, and why the download failed: %q", err, c.want)
			}
			if left, err := os.ReadDir(m.download.cache); err != nil || len(left) != 0 {
				t.Errorf("the cache has %v, %v", left, err)
			}
		})
	}
}

func TestDownloadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	t.Cleanup(hangs.CloseClientConnections)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := bare(t, hangs.URL).find(ctx, Options{Download: true}, ""); !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("got %v", err)
	}
}
