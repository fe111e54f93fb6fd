"""The compose file against the schema of its format, and against what it mounts and starts."""

import pathlib
import subprocess
import sys

import programs
import yaml

FOLDER = programs.ROOT / "deploy/docker"
SERVICES = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


def mounts(service):
    """Path in the container -> path here, of the service's mounts of files and folders."""
    volumes = [volume.split(":") for volume in SERVICES[service]["volumes"]]
    return {volume[1]: FOLDER / volume[0] for volume in volumes if volume[0].startswith(".")}


def test_the_format_is_that_of_compose():
    validate = pathlib.Path(sys.executable).with_name("check-jsonschema")
    command = [validate, "--builtin-schema", "vendor.compose-spec", FOLDER / "compose.yaml"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_what_is_mounted_is_there():
    for service in ("prometheus", "grafana"):
        assert mounts(service)
        for path in mounts(service).values():
            assert path.exists(), path


def test_provisioning_finds_the_dashboard():
    provisioning = mounts("grafana")["/etc/grafana/provisioning"]
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yml").read_text())["datasources"]
    assert source["type"] == "prometheus" and source["isDefault"] and source["url"] == "${PROMETHEUS_URL}"
    assert SERVICES["grafana"]["environment"]["PROMETHEUS_URL"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((provisioning / "dashboards/tessera.yml").read_text())["providers"]
    assert (mounts("grafana")[provider["options"]["path"]] / "tessera.json").exists()


def test_prometheus_watches_the_server_of_the_project(tmp_path):
    """As it lies in the container: the shipped configuration, with the targets of the compose project."""
    for path, source in mounts("prometheus").items():
        place = tmp_path / path.removeprefix("/etc/prometheus/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(source)
    checked = programs.promtool("check", "config", tmp_path / "prometheus.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (targets,) = yaml.safe_load((tmp_path / "targets/compose.yml").read_text())
    assert targets["targets"] == ["tessera:9171"]
    assert "tessera" in SERVICES
