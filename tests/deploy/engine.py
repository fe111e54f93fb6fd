"""The compose project under a container engine: podman, in namespaces of its own, of which nothing stays behind."""

import contextlib
import os
import pathlib
import subprocess
import sys

import container
import programs
import yaml

COMPOSE_FILE = programs.ROOT / "deploy/docker/compose.yaml"
SERVICES = yaml.safe_load(COMPOSE_FILE.read_text())["services"]
# What the engine asks for unless told, a machine without privileges of its own may have to refuse.
LIMITS = {"nofile": {"soft": 4096, "hard": 4096}, "nproc": {"soft": 4096, "hard": 4096}}

# In the network of this machine the project's ports may be taken, and forwarding is off.
_ALONE = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
echo 1 >/proc/sys/net/ipv4/ip_forward
echo ready
exec sleep infinity
"""

_ENGINE = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
"""


class Project:
    """The compose project, of which `services` run."""

    def __init__(self, alone: subprocess.Popen, folder: pathlib.Path, images: container.Images, server_image: str):
        children = pathlib.Path(f"/proc/{alone.pid}/task/{alone.pid}/children")
        (self._pid,) = map(int, children.read_text().split())
        storage = folder / "storage.conf"
        storage.write_text(images.storage())
        settings = folder / "containers.conf"
        settings.write_text(_ENGINE.format(folder=folder))
        self._environment = os.environ | {"CONTAINERS_CONF": str(settings), "CONTAINERS_STORAGE_CONF": str(storage)}
        server = {"image": server_image, "ulimits": LIMITS}
        self._override = folder / "tested.yaml"
        self._override.write_text(yaml.safe_dump({"services": {"tessera": server}}))

    def run(self, *command) -> subprocess.CompletedProcess:
        """A program of this machine where the project's ports are."""
        entered = ["nsenter", "--mount", "--net", "--pid", f"--target={self._pid}", *map(str, command)]
        return subprocess.run(entered, env=self._environment, capture_output=True, text=True, check=False)

    def compose(self, *arguments) -> None:
        program = pathlib.Path(sys.executable).with_name("podman-compose")
        done = self.run(program, "--in-pod=false", "-f", COMPOSE_FILE, "-f", self._override, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def podman(self, *arguments) -> subprocess.CompletedProcess:
        return self.run("podman", *arguments)


@contextlib.contextmanager
def project(images: container.Images, server_image: str, services: list[str], folder: pathlib.Path):
    """The Project with `services`, the server's image being `server_image`; what it needs lies in `folder`."""
    said = folder / "alone.log"
    command = ["unshare", "--mount", "--pid", "--net", "--fork", "--mount-proc", "--kill-child", "sh", "-c", _ALONE]
    with said.open("w") as output:
        alone = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        programs.await_line(alone, said, "ready\n")
        started = Project(alone, folder, images, server_image)
        try:
            started.compose("up", "--detach", "--no-build", *services)
            yield started
        finally:
            started.podman("rm", "--all", "--force", "--time=30", "--volumes")
            started.podman("network", "rm", "tessera_default")
    finally:
        alone.kill()
        alone.wait()
