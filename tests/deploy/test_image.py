"""The image, really built from its Dockerfile and really run: as its user, with a read-only root, in namespaces of its
own. Slow, for it builds the server, and for root alone: tests/run.sh image.

IMAGE_VARIANTS names the variants to try, with commas. IMAGE_JOBS says how many compilers run at once. IMAGE_FOLDER
keeps what was built between runs; else everything is built anew.
"""

import hashlib
import json
import os
import pathlib
import re
import secrets
import subprocess
import sys
import time
from typing import NamedTuple

import certificates
import container
import engine
import numpy as np
import programs
import pytest

pytestmark = pytest.mark.image

# What the caller with a certificate and a token asks for.
CALLER = programs.ROOT / "tests/deploy/resident_call.py"
PROFILE = "name=kept,layers=1,kv_heads=2,head_dim=16,dtype=float32,pages=4"


class Variant(NamedTuple):
    name: str
    suite: str  # of the Debian beneath
    arguments: dict[str, str]  # of the build
    grpc: str  # pattern of its version, as libgrpc++'s package is named by it
    most_bytes: int  # unpacked


VARIANTS = [
    Variant("cpu", "bookworm", {"BACKEND": "cpu"}, r"1\.51", 200_000_000),
    Variant("cuda", "bookworm", {"BACKEND": "cuda"}, r"1\.51", 250_000_000),
    Variant("current-grpc", "sid", {"BACKEND": "cpu", "GRPC": "experimental"}, r"1\.(8[3-9]|9\d|\d{3})", 300_000_000),
]
WANTED = os.environ.get("IMAGE_VARIANTS", "cpu,current-grpc").split(",")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    kept = os.environ.get("IMAGE_FOLDER")
    return container.Images(pathlib.Path(kept) if kept else tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module", params=[one for one in VARIANTS if one.name in WANTED], ids=lambda one: one.name)
def variant(request):
    return request.param


@pytest.fixture(scope="module")
def image(images, variant):
    """Its name, once it is built."""
    name = f"localhost/tessera-server:{variant.name}"
    jobs = os.environ.get("IMAGE_JOBS", "")
    images.build(name, variant.suite, REVISION="tested", JOBS=jobs, **variant.arguments)
    return name


@pytest.fixture(scope="module")
def config(images, image):
    return images.config(image)


@pytest.fixture(scope="module")
def root(images, image):
    with images.unpacked(image) as folder:
        yield folder


@pytest.fixture
def running(root, config, tmp_path):
    with container.running(root, config, ["--drain_grace=0s"], tmp_path) as started:
        yield started


def test_image_says_what_it_is(config):
    assert config["User"] == "7171:7171"
    assert config["Labels"]["org.opencontainers.image.title"] == "tessera-server"
    assert config["Labels"]["org.opencontainers.image.revision"] == "tested"
    assert set(config["ExposedPorts"]) == {"7171/tcp", "9171/tcp"}


def test_image_has_no_compiler(root):
    assert (root / "usr/local/bin/tessera-server").exists()
    tools = ["gcc", "g++", "cc", "c++", "ld", "cmake", "ninja", "protoc", "python3", "nvcc", "ccache"]
    assert [tool for tool in tools for folder in ("usr/bin", "usr/local/bin") if (root / folder / tool).exists()] == []
    assert not (root / "src").exists()
    packages = (root / "var/lib/dpkg/status").read_text()
    assert [line for line in packages.splitlines() if line.startswith("Package: ") and line.endswith("-dev")] == []


def test_image_has_its_grpc(root, variant):
    packages = re.findall(r"^Package: libgrpc\+\+(\S+)$", (root / "var/lib/dpkg/status").read_text(), re.MULTILINE)
    assert len(packages) == 1 and re.fullmatch(variant.grpc, packages[0]), packages


def test_image_is_small(root, variant):
    counted = subprocess.run(["du", "-s", "--block-size=1", root], capture_output=True, text=True, check=True)
    size = int(counted.stdout.split()[0])
    programs_size = sum(program.stat().st_size for program in (root / "usr/local/bin").iterdir())
    print(f"{size / 1e6:.0f} MB, of them {programs_size / 1e6:.1f} MB of programs")
    assert size < variant.most_bytes


def test_it_runs_as_its_user_without_privileges(running):
    processes = running.processes()
    assert [process["Name"] for process in processes] == ["tini", "tessera-server"]
    for process in processes:
        assert process["Uid"].split() == ["7171"] * 4 and process["Gid"].split() == ["7171"] * 4
        assert int(process["CapEff"], 16) == 0 and process["NoNewPrivs"] == "1"


def test_its_root_is_read_only(running):
    """Even for root."""
    tried = running.inside("touch", "/written", user="0:0")
    assert tried.returncode != 0 and "Read-only file system" in tried.stderr


def test_health_check_of_the_image_succeeds(running, config):
    kind, *probe = config["Healthcheck"]["Test"]
    assert kind == "CMD"
    asked = running.inside(*probe)
    assert (asked.returncode, asked.stdout) == (0, "SERVING\n"), asked.stderr


def test_health_check_fails_where_nobody_serves(running, config):
    asked = running.inside(*config["Healthcheck"]["Test"][1:], "--target=localhost:7173")
    assert asked.returncode == 3


def test_it_answers_a_request(running, tmp_path):
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    q, k, v = (random.standard_normal((9, 2, 16), dtype=np.float32) for _ in range(3))
    for name, array in (("q", q), ("k", k), ("v", v)):
        np.save(tmp_path / f"{name}.npy", array)
    given = [f"--{name}={tmp_path / name}.npy" for name in ("q", "k", "v")]
    called = running.network(programs.BIN / "tessera", "attend", *given, f"--out={tmp_path / 'o.npy'}")
    assert called.returncode == 0, called.stderr
    scores = np.einsum("qhd,khd->hqk", q.astype(np.float64), k) / 4
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(np.load(tmp_path / "o.npy"), expected, rtol=1e-4, atol=1e-5)


def test_it_says_what_it_was_built_from(running):
    page = running.network("curl", "-s", "http://127.0.0.1:9171/metrics")
    assert 'revision="tested"' in page.stdout


def test_it_serves_those_alone_who_show_what_is_mounted(root, config, tmp_path):
    """TLS by certificates that are mounted, tokens, and resident sequences. Its user reads the files, and taking them
    anew needs no place to write."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    authority = certificates.Authority(tmp_path / "authority", "tested")
    server, client = authority.issue(), authority.issue()
    token = secrets.token_hex(32)
    for path, contents in {
        mounted / "tls.crt": server.certificate.read_text(),
        mounted / "tls.key": server.private_key.read_text(),
        mounted / "ca.crt": authority.certificate.read_text(),
        mounted / "tokens": f"search {hashlib.sha256(token.encode()).hexdigest()}\n",
        tmp_path / "ca.crt": authority.certificate.read_text(),
        tmp_path / "client.crt": client.certificate.read_text(),
        tmp_path / "client.key": client.private_key.read_text(),
        tmp_path / "token": token,
    }.items():
        path.write_text(contents)
    seen = container.MOUNTED_AT
    flags = ["--drain_grace=0s", "--backend=cpu", f"--kv_profiles={PROFILE}"]
    flags += [f"--tls_certificate={seen}/tls.crt", f"--tls_private_key={seen}/tls.key"]
    flags += [f"--tls_client_ca={seen}/ca.crt", f"--token_file={seen}/tokens"]
    with container.running(root, config, flags, tmp_path) as started:
        called = started.network(sys.executable, CALLER, "127.0.0.1:7171", tmp_path)
        assert called.returncode == 0, called.stderr + started.log.read_text()
        assert started.network(programs.BIN / "tessera", "info").returncode != 0  # in plain text
        (tmp_path / "token").write_text("another")
        refused = started.network(sys.executable, CALLER, "127.0.0.1:7171", tmp_path)
        assert refused.returncode != 0 and "UnauthenticatedError" in refused.stderr
        asked = started.inside(*config["Healthcheck"]["Test"][1:])
        assert (asked.returncode, asked.stdout) == (0, "SERVING\n"), asked.stderr
        assert started.stop() == 0


def test_sigterm_stops_it(running):
    assert running.stop() == 0
    assert '"event":"stopped"' in running.log.read_text()


@pytest.fixture(scope="module")
def prometheus_image(images):
    """Debian's Prometheus, laid out as its makers' image and under its name."""
    name = engine.SERVICES["prometheus"]["image"]
    images.make(name, "bookworm", programs.PROMETHEUS_BIN / "prometheus", "/bin/prometheus", "nobody", "/prometheus")
    return name


@pytest.fixture
def project(images, image, prometheus_image, tmp_path):
    with engine.project(images, image, ["tessera", "prometheus"], tmp_path) as started:
        yield started


def up(project) -> str:
    """What the project's Prometheus last saw of the server, "1" where it answered."""
    asked = project.run("curl", "-sf", 'http://127.0.0.1:9090/api/v1/query?query=up{job="tessera"}', "--globoff")
    seen = json.loads(asked.stdout)["data"]["result"] if asked.returncode == 0 else []
    return seen[0]["value"][1] if seen else ""


def test_a_container_engine_brings_up_the_compose_project(project, config):
    """All of it but Grafana, which is in none of the registries that the tests may ask."""
    deadline = time.monotonic() + 90
    while up(project) != "1":
        assert time.monotonic() < deadline, project.podman("logs", "tessera_prometheus_1").stderr
        time.sleep(0.5)
    told = project.run(programs.BIN / "tessera", "info")
    assert told.returncode == 0, told.stderr
    for service in ("tessera", "prometheus"):
        (seen,) = json.loads(project.podman("inspect", f"tessera_{service}_1").stdout)
        assert seen["State"]["Running"] and seen["EffectiveCaps"] in (None, [])
        written = project.podman("exec", f"tessera_{service}_1", "touch", "/written")
        assert written.returncode != 0 and "Read-only file system" in written.stderr
    assert project.podman("healthcheck", "run", "tessera_tessera_1").returncode == 0
    project.compose("stop", "tessera")
    (seen,) = json.loads(project.podman("inspect", "tessera_tessera_1").stdout)
    assert seen["State"]["ExitCode"] == 0
    assert '"event":"stopped"' in project.podman("logs", "tessera_tessera_1").stderr
