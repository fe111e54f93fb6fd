import time
import urllib.request

import load_mix
import programs
import pytest
import yaml
from prometheus_api import PrometheusApi


@pytest.fixture(scope="session")
def rule_groups() -> list[dict]:
    files = sorted((programs.ROOT / "deploy/prometheus/rules").glob("*.yml"))
    return [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]


class Watched:
    """A server that has been under load, and what Prometheus knew of it right after, however late it is asked."""

    def __init__(self, server, api, page_before, page_after):
        self.server = server
        self.api = api
        self.page_before = page_before
        self.page_after = page_after
        self._asked_at = time.time()

    def series(self, expression):
        return self.api.series(expression, self._asked_at)

    def value(self, expression):
        return self.api.value(expression, self._asked_at)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    with programs.tessera_server(folder, *load_mix.SERVER_FLAGS) as server:
        page_before = metrics_page(server)
        with programs.prometheus(folder, [server.metrics]) as address:
            api = PrometheusApi(address)
            api.await_value("sum(up)", 1)
            load_mix.offer(server.target, load_mix.ANSWERED + load_mix.OVERLOAD, 12, folder)
            # What the load ended with is in every rate after two more scrapes, and in every rule after another.
            scraped = "sum(sum_over_time(up[1h]))"
            api.await_value(scraped, api.value(scraped) + 3)
            api.await_value("sum(up)", 1)
            yield Watched(server, api, page_before, metrics_page(server))


def metrics_page(server: programs.Server) -> str:
    with urllib.request.urlopen(f"http://{server.metrics}/metrics", timeout=10) as answer:
        return answer.read().decode()
