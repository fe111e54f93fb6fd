"""A real Prometheus, by the shipped configuration, against a real server under load."""

import json
import re

import metric_names
import programs
import pytest
from prometheus_api import for_prometheus, without_comparisons

# Bound of the series that one server exports, whatever its callers do; docs/monitoring.md has the figure.
MOST_SERIES = 800

PANELS = [
    panel
    for panel in json.loads((programs.ROOT / "deploy/grafana/dashboards/tessera.json").read_text())["panels"]
    if panel["type"] != "row"
]


def test_metrics_page_is_clean(watched):
    checked = programs.promtool("check", "metrics", stdin=watched.page_after)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.parametrize("panel", PANELS, ids=[f"{panel['id']}-{panel['title']}" for panel in PANELS])
def test_panel_has_data(watched, panel):
    for target in panel["targets"]:
        if watched.series(for_prometheus(target["expr"])):
            continue
        # Rightly empty: the panel says what nothing means, and only what it divides by or compares has left nothing.
        assert panel["fieldConfig"]["defaults"].get("noValue"), f"no data and no word about it: {target['expr']}"
        metric = re.search(r"\btessera_\w+", target["expr"])[0]
        assert watched.series(metric), f"no such metric: {metric}"


def test_only_device_memory_is_empty_on_a_cpu(watched):
    empty = {
        panel["title"]
        for panel in PANELS
        if not all(watched.series(for_prometheus(target["expr"])) for target in panel["targets"])
    }
    assert empty == {"Device memory"}


def test_every_recorded_series_has_data(watched, rule_groups):
    recorded = [rule["record"] for group in rule_groups for rule in group["rules"] if "record" in rule]
    assert recorded
    assert [name for name in recorded if not watched.series(name)] == []


def test_every_alert_compares_data(watched, rule_groups):
    alerts = {rule["alert"]: rule["expr"] for group in rule_groups for rule in group["rules"] if "alert" in rule}
    assert alerts
    empty = {
        (alert, side)
        for alert, expr in alerts.items()
        for side in without_comparisons(expr)
        if not watched.series(side)
    }
    assert empty == set()


def test_rules_are_evaluated_without_error(watched, rule_groups):
    rules = watched.api.rules()
    assert len(rules) == sum(len(group["rules"]) for group in rule_groups)
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []


@pytest.mark.parametrize(
    "happened",
    [
        'tessera_stage_seconds_count{stage="send"}',
        'tessera_stage_seconds_count{stage="compute"}',
        'tessera_rejected_total{reason="queue"}',
        'tessera_rejected_total{reason="invalid"}',
        "tessera_expired_total or tessera_cancelled_total",
        'tessera_flops_total{dtype="float32"}',
        'tessera_flops_total{dtype="bfloat16"}',
        'tessera_flops_total{dtype="float16"}',
        'tessera_tiles_total{result="skipped"}',
        'grpc_server_handled_total{grpc_method="Attend", grpc_code="OK"}',
        'grpc_server_handled_total{grpc_method="AttendStream", grpc_code="OK"}',
    ],
)
def test_load_moved(watched, happened):
    assert watched.value(f"sum({happened})") > 0


def test_page_has_the_names_that_the_server_declares(watched):
    """Besides those of the library that serves the page."""
    named = set(re.findall(r"^# TYPE (\w+) ", watched.page_after, re.MULTILINE))
    assert {name for name in named if not name.startswith("exposer_")} == metric_names.EXPORTED


def test_series_are_all_there_from_the_start(watched):
    """No call made a series: so none can make too many."""

    def series(page):
        return {line.rsplit(" ", 1)[0] for line in page.splitlines() if line and not line.startswith("#")}

    assert series(watched.page_after) == series(watched.page_before)
    assert watched.value("max(scrape_samples_scraped)") == len(series(watched.page_after)) <= MOST_SERIES


def test_a_server_that_dies_is_noticed(watched):
    """The last test of this module: it ends the server."""
    watched.server.process.kill()
    watched.server.process.wait()
    watched.api.await_value('sum(ALERTS{alertname="TesseraDown", alertstate="pending"})', 1)
