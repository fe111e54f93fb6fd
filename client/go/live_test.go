package tessera

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// startLive starts the program that TESSERA_SERVER names, on a free port, and returns its target. The test is skipped
// without one, and fails unless the server drains and exits with 0.
func startLive(t *testing.T, flags ...string) string {
	t.Helper()
	return startLiveServer(t, flags...).target
}

// liveServer is a running server's addresses.
type liveServer struct{ target, metrics string }

// startLiveServer is startLive.
func startLiveServer(t *testing.T, flags ...string) liveServer {
	t.Helper()
	binary := os.Getenv("TESSERA_SERVER")
	if binary == "" {
		t.Skip("TESSERA_SERVER does not name a tessera-server")
	}
	flags = append([]string{"--listen=127.0.0.1:0", "--metrics_address=127.0.0.1:0", "--backend=cpu", "--drain_grace=0s",
		"--log_level=warning"}, flags...)
	server := exec.Command(binary, flags...)
	server.Stderr = os.Stderr
	// A test that dies must leave no process behind.
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		if err := server.Wait(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s ended before it served", binary)
	}
	var serving struct {
		Port        int `json:"grpc_port"`
		MetricsPort int `json:"metrics_port"`
	}
	if err := json.Unmarshal(line, &serving); err != nil {
		t.Fatal(err)
	}
	return liveServer{fmt.Sprintf("127.0.0.1:%d", serving.Port), fmt.Sprintf("127.0.0.1:%d", serving.MetricsPort)}
}

func newTestClient(t *testing.T, target string, settings ...Option) *Client {
	t.Helper()
	client, err := NewClient(target, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
