"""The image, really built from its Dockerfile and really run: as its user, with a read-only root, in namespaces of its
own. Slow, for it builds the server, and for root alone: tests/run.sh image.

IMAGE_FOLDER keeps what was built between runs; else everything is built anew. IMAGE_BACKEND is cpu or cuda.
"""

import os
import pathlib
import subprocess

import container
import numpy as np
import programs
import pytest

pytestmark = pytest.mark.image

BACKEND = os.environ.get("IMAGE_BACKEND", "cpu")
IMAGE = f"localhost/tessera-server:{BACKEND}"
MOST_BYTES = 300_000_000


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    kept = os.environ.get("IMAGE_FOLDER")
    made = container.Images(pathlib.Path(kept) if kept else tmp_path_factory.mktemp("images"))
    if not made.has(container.BASE_IMAGE):
        made.make_base()
    made.build(IMAGE, BASE=container.BASE_IMAGE, BACKEND=BACKEND, REVISION="tested")
    return made


@pytest.fixture(scope="module")
def config(images):
    return images.config(IMAGE)


@pytest.fixture(scope="module")
def root(images):
    with images.unpacked(IMAGE) as folder:
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


def test_image_is_small(root):
    counted = subprocess.run(["du", "-s", "--block-size=1", root], capture_output=True, text=True, check=True)
    assert int(counted.stdout.split()[0]) < MOST_BYTES


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


def test_sigterm_stops_it(running):
    assert running.stop() == 0
    assert '"event":"stopped"' in running.log.read_text()
