"""Metric names: those that the server exports, and those that an expression asks for."""

import re

from programs import ROOT

EXPORTED = set(re.findall(r'= "(\w+)";', (ROOT / "server/metrics/metric_names.h").read_text()))

_NAME = re.compile(r"(?<![\w:$])(?:tessera|grpc_server|process|up|scrape|[a-z_]+:tessera)[\w:]*")


def asked_for(expression: str) -> set[str]:
    """The metrics in a PromQL expression, histograms by their own names; recorded series as they are."""
    without_labels = re.sub(r"\{[^}]*\}|\b(?:by|without|on|ignoring) \([^)]*\)", "", expression)
    return {re.sub(r"_(?:bucket|sum|count)$", "", name) for name in _NAME.findall(without_labels)}
