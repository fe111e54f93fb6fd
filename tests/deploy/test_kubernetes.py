"""The manifests, built by kubectl and validated against the schemas of current Kubernetes, and against the server."""

import hashlib
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys

import kubernetes_validate
import programs
import pytest
import yaml

FOLDER = programs.ROOT / "deploy/kubernetes"
STATELESS = ["cpu", "gpu", "multi-gpu"]
WITH_SEQUENCES = ["cpu-sequences", "gpu-sequences"]
SERVING = [*STATELESS, *WITH_SEQUENCES]
OVERLAYS = [*SERVING, "cpu-secure", "monitoring"]

# From the first version with a sleep as preStop in beta, which is on by default, to the newest.
VERSIONS = ["1.30", "1.32", "1.34", "1.35", "1.36", "1.37"]

# Of the Prometheus operator; no schema of theirs comes with Kubernetes.
CUSTOM_KINDS = {"PodMonitor", "PrometheusRule"}

BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def build(folder):
    kubectl = programs.ROOT / ".venv/bin/kubectl"
    built = subprocess.run([kubectl, "kustomize", folder], capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    return list(yaml.safe_load_all(built.stdout))


@pytest.fixture(scope="module")
def manifests():
    return {overlay: build(FOLDER / "overlays" / overlay) for overlay in OVERLAYS}


def the(kind, resources, name="tessera"):
    (found,) = [one for one in resources if one["kind"] == kind and one["metadata"]["name"].startswith(name)]
    return found


def workload_of(resources):
    """The Deployment or StatefulSet, its pods' spec, and their one container."""
    (workload,) = [one for one in resources if one["kind"] in ("Deployment", "StatefulSet")]
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return workload, pod, container


def flags_of(resources):
    """What the server's flags are, as it reads them: the shared file first."""
    files = the("ConfigMap", resources, "tessera-flags")["data"]
    text = "\n".join(workload_of(resources)[2]["args"])
    for _ in range(2):  # a file may name another one
        text = re.sub(r"^--flagfile=/etc/tessera/(.*)$", lambda found: files[found[1]], text, flags=re.MULTILINE)
    return dict(re.findall(r"^--(\w+)=(.*)$", text, re.MULTILINE))


def expanded(argument, resources, pod_name):
    """An argument as the kubelet hands it to the container of that pod."""
    workload, _, container = workload_of(resources)
    fields = {"metadata.name": pod_name, "metadata.namespace": workload["metadata"]["namespace"]}
    for variable in container.get("env", []):
        value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        argument = argument.replace(f"$({variable['name']})", value)
    assert "$(" not in argument
    return argument


def size(text):
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()
    return int(number) * BYTES[unit]


def page_bytes(flags):
    """What the pages of resident sequences take; their elements have 2 bytes."""
    texts = [text for text in flags.get("kv_profiles", "").split(";") if text]
    profiles = [dict(field.split("=") for field in text.split(",")) for text in texts]
    assert all(profile["dtype"] in ("float16", "bfloat16") for profile in profiles)
    factors = ("layers", "kv_heads", "head_dim", "page_tokens", "pages")
    return sum(4 * math.prod(int(profile[factor]) for factor in factors) for profile in profiles)


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


# Flags in place of those that need the pod's cores, memory and ports.
FOR_THIS_MACHINE = ("--backend=cpu", "--threads=1", "--drain_grace=0s", "--health_address=127.0.0.1:0")


def answer_probes(server, resources):
    """Asks `server` what the probes of a Deployment ask."""
    for probe in ("startupProbe", "readinessProbe"):
        service = workload_of(resources)[2][probe]["grpc"]["service"]
        asked = [programs.BIN / "tessera", "health", f"--target={server.health}", f"--service={service}"]
        assert subprocess.run(asked, check=False).returncode == 0


def make_certificate(folder):
    """One certificate for server, client and authority."""
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=tessera"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-out", folder / "tls.crt", "-keyout", folder / "tls.key"]
    subprocess.run(["openssl", *command.split(), *names], check=True, capture_output=True)
    shutil.copy(folder / "tls.crt", folder / "ca.crt")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_valid_in(manifests, overlay, version):
    checked = 0
    for resource in manifests[overlay]:
        if resource["kind"] not in CUSTOM_KINDS:
            kubernetes_validate.validate(resource, version, strict=True)
            checked += 1
    assert checked >= 2


def test_validation_refuses_what_is_wrong(manifests):
    deployment = json.loads(json.dumps(the("Deployment", manifests["cpu"])))
    deployment["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("overlay", SERVING)
def test_server_takes_the_flags_and_answers_the_probes(manifests, overlay, tmp_path):
    """As they lie in the pod, but for the backend, the ports and the memory of this machine."""
    for name, text in the("ConfigMap", manifests[overlay], "tessera-flags")["data"].items():
        less_memory = re.sub(r"\bpages=\d+", "pages=8", text)
        (tmp_path / name).write_text(less_memory.replace("/etc/tessera/", f"{tmp_path}/"))
    shipped = [
        expanded(argument, manifests[overlay], "tessera-0").replace("/etc/tessera/", f"{tmp_path}/")
        for argument in workload_of(manifests[overlay])[2]["args"]
    ]
    server = (programs.BIN / "tessera-server", *shipped, *FOR_THIS_MACHINE)
    with programs.tessera_server(tmp_path, command=server) as started:
        answer_probes(started, manifests[overlay])
    assert started.process.returncode == 0


def test_secure_overlay_asks_for_certificates_and_tokens(manifests, tmp_path):
    """With the Secrets' files where the pod would have them."""
    container = workload_of(manifests["cpu-secure"])[2]
    plain, *added = container["args"]
    assert [plain] == workload_of(manifests["cpu"])[2]["args"]
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {one["name"]: one for one in workload_of(manifests["cpu-secure"])[1]["volumes"]}
    secrets = {path: volumes[name]["secret"]["secretName"] for path, name in mounted.items() if name != "flags"}
    assert secrets == {"/etc/tessera-tls": "tessera-tls", "/etc/tessera-tokens": "tessera-tokens"}
    for secret in secrets:
        (tmp_path / pathlib.Path(secret).name).mkdir()
    make_certificate(tmp_path / "tessera-tls")
    (tmp_path / "token").write_text("a-token\n")
    (tmp_path / "tessera-tokens/tokens").write_text(f"tenant {hashlib.sha256(b'a-token').hexdigest()}\n")

    server = (programs.BIN / "tessera-server", *(flag.replace("/etc/", f"{tmp_path}/") for flag in added))
    with programs.tessera_server(tmp_path, *FOR_THIS_MACHINE, command=server) as started:
        answer_probes(started, manifests["cpu-secure"])
        tls = tmp_path / "tessera-tls"
        asked = [programs.BIN / "tessera", "health", f"--target={started.target}", f"--tls-ca={tls}/ca.crt"]
        own = [f"--tls-certificate={tls}/tls.crt", f"--tls-private-key={tls}/tls.key"]
        token = f"--token-file={tmp_path}/token"
        unreachable, refused = 3, 1
        for flags, code in (([token], unreachable), (own, refused), ([*own, token], 0)):
            assert subprocess.run([*asked, *flags, "--timeout=10s"], check=False).returncode == code


@pytest.mark.parametrize("overlay", SERVING)
def test_image_fits_backend_and_user(manifests, overlay):
    image = workload_of(manifests[overlay])[2]["image"]
    assert image == f"tessera-server:{flags_of(manifests[overlay])['backend']}"
    user = workload_of(manifests[overlay])[1]["securityContext"]
    dockerfile = (programs.ROOT / "deploy/docker/Dockerfile").read_text()
    assert f"\nUSER {user['runAsUser']}:{user['runAsGroup']}\n" in dockerfile


@pytest.mark.parametrize("overlay", SERVING)
def test_memory_and_cores_hold_what_the_flags_take(manifests, overlay):
    flags = flags_of(manifests[overlay])
    limits = workload_of(manifests[overlay])[2]["resources"]["limits"]
    rest = 2**29 if flags["backend"] == "cpu" else 2**30
    pages = page_bytes(flags) if flags["backend"] == "cpu" else 0  # a GPU's are in its own memory
    taken = size(flags["staging_bytes"]) + size(flags["transport_bytes"]) + pages
    assert size(limits["memory"]) >= taken + rest
    if flags["backend"] == "cpu":
        assert flags["threads"] == limits["cpu"]


@pytest.mark.parametrize("overlay", STATELESS)
def test_gpus_are_limits(manifests, overlay):
    deployment, _, container = workload_of(manifests[overlay])
    gpus = container["resources"]["limits"].get("nvidia.com/gpu", 0)
    assert gpus == {"cpu": 0, "gpu": 1, "multi-gpu": 4}[overlay]
    # With no spare GPU, a pod that comes before one goes would wait for ever.
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == (0 if gpus else 1)


@pytest.mark.parametrize("overlay", SERVING)
def test_pods_outlive_the_drain(manifests, overlay):
    _, pod, container = workload_of(manifests[overlay])
    flags = flags_of(manifests[overlay])
    before = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain = seconds(flags["drain_grace"]) + seconds(flags["drain_timeout"])
    exit_forced = 10
    assert pod["terminationGracePeriodSeconds"] > before + drain + exit_forced
    readiness = container["readinessProbe"]
    assert seconds(flags["drain_grace"]) >= readiness["periodSeconds"] * readiness["failureThreshold"]


@pytest.mark.parametrize("overlay", SERVING)
def test_probes_go_to_the_ports_of_the_flags(manifests, overlay):
    container = workload_of(manifests[overlay])[2]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    flags = flags_of(manifests[overlay])
    assert flags["listen"].endswith(f":{ports['grpc']}") and flags["metrics_address"].endswith(f":{ports['metrics']}")
    assert flags["health_address"].endswith(f":{ports['health']}")
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["grpc"]["port"] == ports["health"]
    assert container["livenessProbe"]["httpGet"]["port"] in ports


@pytest.mark.parametrize("overlay", SERVING)
def test_pods_keep_the_restricted_profile(manifests, overlay):
    """The controls of Kubernetes' Pod Security Standard `restricted`, as far as fields exist for them here."""
    _, pod, container = workload_of(manifests[overlay])
    levels = the("Namespace", manifests[overlay])["metadata"]["labels"]
    assert levels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert pod["securityContext"]["runAsNonRoot"] is True and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {kind for volume in pod["volumes"] for kind in volume} <= {"name", "configMap", "emptyDir"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPort" in port for port in container["ports"])
    assert pod["automountServiceAccountToken"] is False


@pytest.mark.parametrize("overlay", SERVING)
def test_everything_selects_the_pods(manifests, overlay):
    resources = manifests[overlay] + manifests["monitoring"]
    workload, _, container = workload_of(resources)
    labels = workload["spec"]["template"]["metadata"]["labels"]
    selectors = [
        workload["spec"]["selector"]["matchLabels"],
        the("Service", resources)["spec"]["selector"],
        the("PodDisruptionBudget", resources)["spec"]["selector"]["matchLabels"],
        the("NetworkPolicy", resources)["spec"]["podSelector"]["matchLabels"],
        the("PodMonitor", resources)["spec"]["selector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector and selector.items() <= labels.items()
    ports = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in the("Service", resources)["spec"]["ports"]} <= ports
    opened = {port["port"] for rule in the("NetworkPolicy", resources)["spec"]["ingress"] for port in rule["ports"]}
    assert opened == ports - {"health"}  # probes come from the node, which no policy keeps out
    assert {one["port"] for one in the("PodMonitor", resources)["spec"]["podMetricsEndpoints"]} <= ports


@pytest.mark.parametrize("overlay", STATELESS)
def test_autoscaler_scales_the_pods(manifests, overlay):
    scaled = the("HorizontalPodAutoscaler", manifests["monitoring"])["spec"]["scaleTargetRef"]
    workload = workload_of(manifests[overlay])[0]
    assert (scaled["kind"], scaled["name"]) == (workload["kind"], workload["metadata"]["name"])


@pytest.mark.parametrize("overlay", WITH_SEQUENCES)
def test_pods_that_keep_sequences_have_names(manifests, overlay):
    workload = workload_of(manifests[overlay])[0]
    assert (workload["kind"], "strategy" in workload["spec"]) == ("StatefulSet", False)
    assert workload["spec"]["serviceName"] == the("Service", manifests[overlay])["metadata"]["name"]
    assert "kv_profiles" in flags_of(manifests[overlay])


@pytest.mark.parametrize("overlay", WITH_SEQUENCES)
def test_pods_that_keep_sequences_know_each_other(manifests, overlay):
    """By the names that the StatefulSet's headless Service gives them, and the port that it has."""
    workload, _, container = workload_of(manifests[overlay])
    service = the("Service", manifests[overlay])
    domain = f"{workload['spec']['serviceName']}.{workload['metadata']['namespace']}.svc"
    (port,) = [port["port"] for port in service["spec"]["ports"]]
    flags = {}
    for number in range(workload["spec"]["replicas"]):
        pod = f"{workload['metadata']['name']}-{number}"
        arguments = [expanded(argument, manifests[overlay], pod) for argument in container["args"]]
        flags = dict(re.findall(r"^--(\w+)=(.*)$", "\n".join(arguments), re.MULTILINE))
        assert flags["advertise"] == f"{pod}.{domain}:{port}"
    before, last, after = re.fullmatch(r"(.*)\{0\.\.(\d+)\}(.*)", flags["peers"]).groups()
    assert f"{before}N{after}" == f"{workload['metadata']['name']}-N.{domain}:{port}"
    assert int(last) >= workload["spec"]["replicas"]


@pytest.mark.parametrize("overlay", WITH_SEQUENCES)
def test_pods_that_keep_sequences_have_a_namespace_of_their_own(manifests, overlay):
    """Else the selectors of one overlay would match the pods of the other."""
    own, others = (the("Namespace", manifests[one])["metadata"]["name"] for one in (overlay, "cpu"))
    assert own != others
    for resource in manifests[overlay]:
        assert resource["kind"] == "Namespace" or resource["metadata"]["namespace"] == own


@pytest.mark.parametrize("overlay", SERVING)
def test_the_name_resolves_to_pods(manifests, overlay):
    assert the("Service", manifests[overlay])["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize("overlay", SERVING)
def test_the_namespace_is_closed_by_default(manifests, overlay):
    closed = the("NetworkPolicy", manifests[overlay], "deny-all")["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


@pytest.mark.parametrize("overlay", SERVING)
def test_changed_flags_roll_the_pods(manifests, overlay):
    _, pod, _ = workload_of(manifests[overlay])
    (mounted,) = [volume["configMap"]["name"] for volume in pod["volumes"]]
    assert mounted == the("ConfigMap", manifests[overlay], "tessera-flags")["metadata"]["name"] != "tessera-flags"


def test_rules_are_those_of_prometheus(manifests, rule_groups):
    subprocess.run([sys.executable, FOLDER / "prometheus_rule.py", "--check"], check=True)
    built = the("PrometheusRule", manifests["monitoring"])["spec"]["groups"]
    assert sorted(built, key=str) == sorted(rule_groups, key=str)


def test_pods_are_scraped_as_the_job_that_rules_name(manifests):
    monitor = the("PodMonitor", manifests["monitoring"])["spec"]
    labels = workload_of(manifests["cpu"])[0]["spec"]["template"]["metadata"]["labels"]
    assert labels[monitor["jobLabel"]] == "tessera"
    (job,) = yaml.safe_load((programs.ROOT / "deploy/prometheus/prometheus.yml").read_text())["scrape_configs"]
    assert (monitor["sampleLimit"], monitor["labelLimit"]) == (job["sample_limit"], job["label_limit"])


def test_autoscaler_is_given_a_recorded_series(manifests, rule_groups):
    (metric,) = the("HorizontalPodAutoscaler", manifests["monitoring"])["spec"]["metrics"]
    (rule,) = yaml.safe_load((programs.ROOT / "deploy/prometheus/adapter.yml").read_text())["externalRules"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]
    recorded = {one["record"] for group in rule_groups for one in group["rules"] if "record" in one}
    asked = re.match(r"[\w:]+", rule["seriesQuery"])[0]
    assert asked in recorded and asked in rule["metricsQuery"]


def test_dashboard_is_found_by_grafana(manifests):
    dashboard = the("ConfigMap", manifests["monitoring"], "tessera-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["tessera.json"])["uid"] == "tessera"
