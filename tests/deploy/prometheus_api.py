"""Questions to a Prometheus, and the shipped queries in the form that it takes."""

import json
import math
import re
import time
import urllib.parse
import urllib.request

# What Grafana puts in for its variables: everything is chosen, and a rate looks back four scrapes or further.
GRAFANA = {"$namespace": ".*", "$instance": ".*", "$__rate_interval": "30s"}


def for_prometheus(expression: str) -> str:
    for variable, value in GRAFANA.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression, f"a variable that Grafana would not know: {expression}"
    return expression


def without_comparisons(alert: str) -> list[str]:
    """The parts of an alert's expression that always have data while servers run: what it compares, not the outcome."""
    sides = re.split(r"\n(?:and|unless) ", alert.strip())
    return [re.sub(r" (?:[<>]=?|[!=]=) [0-9.e-]+$", "", re.sub(r"^absent\((.*)\)$", r"\1", side)) for side in sides]


class PrometheusApi:
    def __init__(self, address: str):
        self._base = f"http://{address}/api/v1/"

    def _get(self, path: str, **parameters):
        url = f"{self._base}{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def rules(self) -> list[dict]:
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def series(self, expression: str, at: float | None = None) -> list[dict]:
        """What an instant query returns of the time `at`, by default now, less the series without a number."""
        found = self._get("query", query=expression, time=at or time.time())["result"]
        return [one for one in found if not math.isnan(float(one["value"][1]))]

    def value(self, expression: str, at: float | None = None) -> float:
        """The one number that an instant query returns; 0 where it returns nothing."""
        found = self.series(expression, at)
        assert len(found) <= 1, f"{expression}: {found}"
        return float(found[0]["value"][1]) if found else 0.0

    def over(self, expression: str, begin: float, end: float, step: float) -> list[dict]:
        return self._get("query_range", query=expression, start=begin, end=end, step=step)["result"]

    def await_value(self, expression: str, enough: float, within_seconds: float = 120) -> None:
        deadline = time.monotonic() + within_seconds
        while (value := self.value(expression)) < enough:
            assert time.monotonic() < deadline, f"{expression} is {value} after {within_seconds} s, not {enough}"
            time.sleep(0.2)
