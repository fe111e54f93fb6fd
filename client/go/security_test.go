package tessera

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	t           *testing.T
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	pem         string
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:  x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.certificate, a.pem = a.sign(template, template, a.key)
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, string) {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// issue writes a new certificate and key to folder/name.crt and folder/name.key.
func (a *authority) issue(folder, name string) (certificate, key string) {
	a.t.Helper()
	private := newKey(a.t)
	_, text := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.certificate, private)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	certificate = write(a.t, folder, name+".crt", text)
	key = write(a.t, folder, name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return certificate, key
}

func write(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func tokenLine(tenant, token string) string {
	return fmt.Sprintf("%s %x\n", tenant, sha256.Sum256([]byte(token)))
}

func TestSecuredServerIsCalled(t *testing.T) {
	folder := t.TempDir()
	ca := newAuthority(t, "test CA")
	other := newAuthority(t, "another test CA")
	caFile := write(t, folder, "ca.crt", ca.pem)
	certificate, key := ca.issue(folder, "server")
	target := startLive(t, "--tls_certificate="+certificate, "--tls_private_key="+key, "--tls_client_ca="+caFile,
		"--token_file="+write(t, folder, "tokens", tokenLine("ours", "good")))

	files := TLSFiles{CA: caFile}
	files.Certificate, files.PrivateKey = ca.issue(folder, "own")
	good := WithTokenFile(write(t, folder, "token", "good\n"))
	unknown := WithTokenFile(write(t, folder, "unknown", "unknown"))
	stranger := files
	stranger.CA = write(t, folder, "other.crt", other.pem)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, c := range []struct {
		name    string
		options []Option
		want    codes.Code
	}{
		{"good", []Option{WithTLSFiles(files), good}, codes.OK},
		{"no token", []Option{WithTLSFiles(files)}, codes.Unauthenticated},
		{"unknown token", []Option{WithTLSFiles(files), unknown}, codes.Unauthenticated},
		{"other tenant", []Option{WithTLSFiles(files), good, WithTenant("theirs")}, codes.PermissionDenied},
		{"no certificate", []Option{WithTLSFiles(TLSFiles{CA: caFile}), good}, codes.Unavailable},
		{"other CA", []Option{WithTLSFiles(stranger), good}, codes.Unavailable},
	} {
		client := newTestClient(t, target, append(c.options, WithConnections(1))...)
		if _, err := client.ServerInfo(ctx); status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestBadSecurityFilesAreRefused(t *testing.T) {
	folder := t.TempDir()
	bad := write(t, folder, "bad", "secret secret")
	ca := newAuthority(t, "test CA")
	certificate, _ := ca.issue(folder, "one")
	_, otherKey := ca.issue(folder, "two")
	for name, option := range map[string]Option{
		"CA":        WithTLSFiles(TLSFiles{CA: bad}),
		"no CA":     WithTLSFiles(TLSFiles{CA: filepath.Join(folder, "none")}),
		"mismatch":  WithTLSFiles(TLSFiles{Certificate: certificate, PrivateKey: otherKey}),
		"half":      WithTLSFiles(TLSFiles{Certificate: certificate}),
		"token":     WithTokenFile(bad),
		"no token":  WithTokenFile(filepath.Join(folder, "none")),
		"plaintext": WithTokenFile(write(t, folder, "token", "secret")),
	} {
		client, err := NewClient("localhost:1", option)
		if err == nil {
			client.Close()
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v tells the token", name, err)
		}
	}
}

func TestHandshakesReadTheFiles(t *testing.T) {
	folder := t.TempDir()
	ca := newAuthority(t, "test CA")
	files := TLSFiles{CA: write(t, folder, "ca.crt", ca.pem)}
	files.Certificate, files.PrivateKey = ca.issue(folder, "own")
	c := &fileCredentials{files: files}
	shown := func() string {
		config, err := c.config()
		if err != nil {
			t.Fatal(err)
		}
		return string(config.Certificates[0].Certificate[0])
	}
	first := shown()
	ca.issue(folder, "own")
	second := shown()
	if first == second {
		t.Error("the new certificate is not shown")
	}
	write(t, folder, "own.key", "bad")
	if shown() != second {
		t.Error("a bad key is not passed over")
	}
}

func TestTokenFileIsReadAgain(t *testing.T) {
	folder := t.TempDir()
	source := &tokenFile{path: write(t, folder, "token", "one\n")}
	now := time.Now()
	expect := func(want string) {
		t.Helper()
		if token, err := source.read(now); err != nil || token != want {
			t.Errorf("token %q, %v; want %q", token, err, want)
		}
	}
	expect("one")
	write(t, folder, "token", "two")
	expect("one")
	now = now.Add(time.Second)
	expect("two")
	write(t, folder, "token", "not a token")
	now = now.Add(time.Second)
	expect("two")
}
