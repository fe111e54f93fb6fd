package tessera

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// TLSFiles names files in PEM. Each handshake reads them, so that connections made later use what they then hold; while
// they are no good, the last good ones go on.
type TLSFiles struct {
	CA          string // who signs the server's certificate; empty: whom the system trusts
	Certificate string // the client's own, for servers that ask for one; both or neither
	PrivateKey  string
	ServerName  string // what the server's certificate must bear; empty: the target's host
}

// WithTLSFiles secures connections. NewClient fails where the files are no good.
func WithTLSFiles(files TLSFiles) Option {
	return func(o *options) {
		c := &fileCredentials{files: files}
		if _, err := c.config(); err != nil {
			o.invalid = invalid("tls: %v", err)
		}
		o.credentials = c
	}
}

// WithTokenFile sends the bearer token that a file holds with every call. The file is read again at most once a second;
// while it holds no token, the last one goes on. Needs TLS. NewClient fails where there is no token.
func WithTokenFile(path string) Option {
	return func(o *options) {
		t := &tokenFile{path: path}
		if _, err := t.read(time.Now()); err != nil {
			o.invalid = invalid("token_file: %v", err)
		}
		o.dial = append(o.dial, grpc.WithPerRPCCredentials(t))
	}
}

// fileCredentials reads its files with each handshake.
type fileCredentials struct {
	files TLSFiles

	mu   sync.Mutex
	good *tls.Config // by the last files that were good
}

// config is by the files, or by the last good ones; an error where there have been none.
func (c *fileCredentials) config() (*tls.Config, error) {
	config, err := c.files.load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.good = config
	} else if c.good == nil {
		return nil, err
	}
	return c.good, nil
}

func (f TLSFiles) load() (*tls.Config, error) {
	config := &tls.Config{ServerName: f.ServerName, MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New(f.CA + " holds no certificate")
		}
	}
	if f.Certificate != "" || f.PrivateKey != "" {
		pair, err := tls.LoadX509KeyPair(f.Certificate, f.PrivateKey)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (c *fileCredentials) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	config, err := c.config()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(config).ClientHandshake(ctx, authority, conn)
}

func (c *fileCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are a client's")
}

func (c *fileCredentials) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(&tls.Config{ServerName: c.files.ServerName}).Info()
}

func (c *fileCredentials) Clone() credentials.TransportCredentials {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &fileCredentials{files: c.files, good: c.good}
}

func (c *fileCredentials) OverrideServerName(name string) error {
	c.files.ServerName = name
	return nil
}

// tokenFile is the credentials of each call.
type tokenFile struct {
	path string

	mu       sync.Mutex
	token    string
	nextLook time.Time
}

func (t *tokenFile) read(now time.Time) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.nextLook) {
		return t.token, nil
	}
	t.nextLook = now.Add(time.Second)
	text, err := os.ReadFile(t.path)
	token := strings.TrimSpace(string(text))
	if err == nil && !isToken(token) {
		err = errors.New(t.path + " holds no token: it must be printable ASCII without spaces, and not empty")
	}
	if err == nil {
		t.token = token
	} else if t.token == "" {
		return "", err
	}
	return t.token, nil
}

func isToken(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return text != ""
}

func (t *tokenFile) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	token, err := t.read(time.Now())
	if err != nil {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

func (t *tokenFile) RequireTransportSecurity() bool { return true }
