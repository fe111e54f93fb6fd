"""Writes overlays/monitoring/prometheus_rule.yaml: the rules of deploy/prometheus in the form that the Prometheus
operator takes, which kustomize cannot make of plain files.

    python3 deploy/kubernetes/prometheus_rule.py            writes it
    python3 deploy/kubernetes/prometheus_rule.py --check    fails where the file differs from what would be written
"""

import pathlib
import sys
import textwrap

HERE = pathlib.Path(__file__).parent
FILE = HERE / "overlays/monitoring/prometheus_rule.yaml"
RULES = [HERE.parent / "prometheus/rules" / name for name in ("recording.yml", "alerts.yml")]

HEAD = """\
# Written by deploy/kubernetes/prometheus_rule.py from deploy/prometheus/rules.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: tessera
  labels: {app.kubernetes.io/name: tessera}
spec:
  groups:
"""


def main():
    groups = "".join(file.read_text().partition("groups:\n")[2] for file in RULES)
    text = HEAD + textwrap.indent(groups, "  ")
    if "--check" in sys.argv[1:]:
        if FILE.read_text() != text:
            sys.exit(f"{FILE} is not what {__file__} writes: run it")
    else:
        FILE.write_text(text)


if __name__ == "__main__":
    main()
