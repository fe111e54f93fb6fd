"""The shipped Prometheus files by themselves, as promtool sees them."""

import re

import metric_names
import programs
import yaml

FOLDER = programs.ROOT / "deploy/prometheus"
UNIT_TESTS = sorted((FOLDER / "tests").glob("*.yml"))


def rules_named(rule_groups, kind):
    return {rule[kind]: rule for group in rule_groups for rule in group["rules"] if kind in rule}


def test_configuration_is_valid(tmp_path):
    checked = programs.promtool("check", "config", "--lint=all", "--lint-fatal", FOLDER / "prometheus.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "rule files found" in checked.stdout


def test_unit_tests_of_the_rules_pass():
    assert UNIT_TESTS
    tested = programs.promtool("test", "rules", *UNIT_TESTS)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_unit_tests_see_every_alert_fire_and_be_silent(rule_groups):
    tests = [test for file in UNIT_TESTS for test in yaml.safe_load(file.read_text())["tests"]]
    firing = {
        name
        for test in tests
        for expectation in test["promql_expr_test"]
        for sample in expectation["exp_samples"]
        for name in re.findall(r'alertname="(\w+)", alertstate="firing"', sample["labels"])
    }
    assert firing == set(rules_named(rule_groups, "alert"))
    # Where one fires, no other does, and a while before none did: the tests ask for all alerts at once.
    for test in tests:
        expectations = [one for one in test["promql_expr_test"] if one["expr"].startswith("ALERTS")]
        assert any(not one["exp_samples"] for one in expectations), test["name"]


def test_unit_tests_see_every_recorded_series(rule_groups):
    tests = [test for file in UNIT_TESTS for test in yaml.safe_load(file.read_text())["tests"]]
    seen = set().union(*(metric_names.asked_for(one["expr"]) for test in tests for one in test["promql_expr_test"]))
    assert set(rules_named(rule_groups, "record")) <= seen


def test_rules_ask_for_what_is_exported(rule_groups):
    known = metric_names.EXPORTED | set(rules_named(rule_groups, "record")) | {"up"}
    for group in rule_groups:
        for rule in group["rules"]:
            asked = metric_names.asked_for(rule["expr"])
            assert asked and asked <= known, rule["expr"]


def test_every_alert_is_explained(rule_groups):
    explained = set(re.findall(r"^### (\w+)$", (programs.ROOT / "docs/monitoring.md").read_text(), re.MULTILINE))
    assert explained == set(rules_named(rule_groups, "alert"))
    for rule in rules_named(rule_groups, "alert").values():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
