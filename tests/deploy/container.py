"""Images and containers with nothing but buildah and the kernel's namespaces: no container engine is needed."""

import contextlib
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess

import programs

# Where a container finds what is mounted into it.
MOUNTED_AT = pathlib.Path("/mnt")

# A container's file system as an engine sets it up that was told to keep the root read-only; $ROOT is its folder, and
# $MOUNTED what it also gets to see, read-only.
_ENTER = """
set -e
mount --make-rprivate /
mount --bind "$ROOT" "$ROOT"
mount -o remount,bind,ro "$ROOT"
mount --rbind /dev "$ROOT/dev"
mount --bind "$MOUNTED" "$ROOT/mnt"
mount -o remount,bind,ro "$ROOT/mnt"
mount -t proc proc "$ROOT/proc"
ip link set lo up
exec setpriv --no-new-privs chroot --userspec="$USERSPEC" "$ROOT" "$@"
"""


def _children(pid: int) -> list[int]:
    """Of a process of this machine; none where it has ended."""
    try:
        return list(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except FileNotFoundError:
        return []


class Images:
    """Buildah's storage in `folder`."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder

    def buildah(self, *arguments) -> str:
        """What buildah says on standard output."""
        place = ["--root", self._folder / "store", "--runroot", self._folder / "run", "--storage-driver", "vfs"]
        command = [str(word) for word in ["buildah", *place, *arguments]]
        (self._folder / "tmp").mkdir(parents=True, exist_ok=True)
        environment = os.environ | {"TMPDIR": str(self._folder / "tmp"), "BUILDAH_ISOLATION": "chroot"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-20000:]
        return done.stdout.strip()

    def storage(self) -> str:
        """Where it is, as a storage.conf says it."""
        places = {"driver": "vfs", "graphroot": self._folder / "store", "runroot": self._folder / "run"}
        return "\n".join(["[storage]", *(f'{name} = "{place}"' for name, place in places.items()), ""])

    def has(self, image: str) -> bool:
        return any(image in (one["names"] or []) for one in json.loads(self.buildah("images", "--json") or "[]"))

    def _base(self, suite: str) -> str:
        """The name of an image of Debian `suite` as debootstrap unpacks it."""
        image = f"localhost/debian:{suite}"
        if not self.has(image):
            self._make_base(suite, image)
        return image

    def _make_base(self, suite: str, image: str) -> None:
        root = self._folder / suite
        command = ["debootstrap", "--variant=minbase", suite, str(root)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        # As in the images that a registry has.
        subprocess.run(["chroot", root, "sh", "-c", "apt-get clean && rm -r /var/lib/apt/lists/*"], check=True)
        # Likewise: a step that fails is begun anew, so nothing need be on the disk at once.
        (root / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
        # A mirror may be older than the week for which sid's lists are good.
        (root / "etc/apt/apt.conf.d/old-mirror").write_text('Acquire::Check-Valid-Until "false";\n')
        # Whom this machine trusts beside the usual authorities, its proxies say, the builds in the image trust, too.
        trusted = pathlib.Path("/usr/local/share/ca-certificates")
        if trusted.exists():
            shutil.copytree(trusted, root / trusted.relative_to("/"), dirs_exist_ok=True)
        made = self.buildah("from", "scratch")
        self.buildah("add", made, root, "/")
        self.buildah("commit", "--rm", made, image)
        subprocess.run(["rm", "-r", "--one-file-system", root], check=True)  # whatever is still mounted there

    def _compiler_cache(self, suite: str) -> pathlib.Path:
        """This machine's, where it has the same Debian: another's ccache may not know its files."""
        cache = self._folder / f"ccache-{suite}"
        if platform.freedesktop_os_release().get("VERSION_CODENAME") == suite:
            asked = subprocess.run(["ccache", "-k", "cache_dir"], capture_output=True, text=True, check=True)
            cache = pathlib.Path(asked.stdout.strip())
        cache.mkdir(parents=True, exist_ok=True)
        return cache

    def build(self, image: str, suite: str, **arguments: str) -> None:
        """`image` from the Dockerfile, on Debian `suite`."""
        docker = programs.ROOT / "deploy/docker"
        cache = self._compiler_cache(suite)
        arguments = {"BASE": self._base(suite), **arguments}
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        files = ["-f", docker / "Dockerfile", "--ignorefile", docker / "Dockerfile.dockerignore"]
        # "docker", because the format of OCI has no health check.
        self.buildah("bud", "--format=docker", "-v", f"{cache}:/ccache", *files, *given, "-t", image, programs.ROOT)

    def make(self, image: str, suite: str, program: pathlib.Path, entry: str, user: str, data: str) -> None:
        """`image` of Debian `suite` and one `program`, as which `entry` runs for `user`, whose folder `data` is."""
        made = self.buildah("from", self._base(suite))
        self.buildah("copy", made, program, entry)
        self.buildah("run", made, "install", "-d", "-o", user, data)
        self.buildah("config", "--user", user, "--volume", data, "--workingdir", data, "--cmd", "", made)
        self.buildah("config", "--entrypoint", json.dumps([entry]), made)
        self.buildah("commit", "--rm", "--format=docker", made, image)

    def config(self, image: str) -> dict:
        return json.loads(self.buildah("inspect", "--type=image", image))["Docker"]["config"]

    @contextlib.contextmanager
    def unpacked(self, image: str):
        """The image's files, as a folder."""
        made = self.buildah("from", image)
        try:
            yield pathlib.Path(self.buildah("mount", made))
        finally:
            self.buildah("rm", made)


class Container:
    """A container that runs: process 1 of its own process, mount and network namespaces."""

    def __init__(self, unshare: subprocess.Popen, root: pathlib.Path, user: str, log: pathlib.Path):
        self._unshare = unshare
        self._root = root
        self._user = user
        self.log = log
        (self.pid,) = _children(unshare.pid)

    def network(self, *command) -> subprocess.CompletedProcess:
        """A program of this machine in the container's network."""
        entered = ["nsenter", "--net", f"--target={self.pid}", *map(str, command)]
        return subprocess.run(entered, capture_output=True, text=True, check=False)

    def inside(self, *command, user: str | None = None) -> subprocess.CompletedProcess:
        """A program of the image, beside the one that runs."""
        entered = ["nsenter", "--mount", "--net", "--pid", f"--target={self.pid}"]
        entered += ["chroot", f"--userspec={user or self._user}", str(self._root), *map(str, command)]
        return subprocess.run(entered, capture_output=True, text=True, check=False)

    def processes(self) -> list[dict[str, str]]:
        """/proc/PID/status of process 1 and its children."""
        texts = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in [self.pid, *_children(self.pid)]]
        return [dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line) for text in texts]

    def stop(self) -> int:
        """SIGTERM to process 1, as an engine stops a container; its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self._unshare.wait(timeout=60)


@contextlib.contextmanager
def running(root: pathlib.Path, config: dict, arguments: list[str], folder: pathlib.Path):
    """A Container of the image that was unpacked to `root`, as soon as it says that it serves. Its log is in `folder`;
    it finds the folder "mounted" in there at MOUNTED_AT."""
    said = folder / "container.json"
    mounted = folder / "mounted"
    mounted.mkdir(exist_ok=True)
    environment = os.environ | {"ROOT": str(root), "USERSPEC": config["User"], "MOUNTED": str(mounted)}
    entry = ["sh", "-c", _ENTER, "enter", *config["Entrypoint"], *arguments]
    command = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", *entry]
    with said.open("w") as stdout, (folder / "container.log").open("w") as stderr:
        process = subprocess.Popen(command, env=environment, stdout=stdout, stderr=stderr)
        try:
            programs.await_line(process, said, r"\{.*\}\n")
            yield Container(process, root, config["User"], folder / "container.log")
        finally:
            # The end of unshare would not reach a child that has become another user.
            for child in _children(process.pid):
                os.kill(child, signal.SIGKILL)
            process.kill()
            process.wait()
