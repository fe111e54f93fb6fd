"""Draws every panel of the dashboard from what a real Prometheus recorded of a real server, into docs/pictures.

    .venv/bin/python tests/deploy/draw_panels.py [SECONDS]     of each of the three phases; default 60

The server is offered little, then what it can do, then more than that and wrong calls besides. One picture for each row
of the dashboard; queries, units and titles are the dashboard's own.
"""

import json
import pathlib
import sys
import tempfile
import time

import load_mix
import matplotlib
import programs
from prometheus_api import PrometheusApi, for_prometheus

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (after the choice of a backend)
from matplotlib.ticker import EngFormatter, PercentFormatter  # noqa: E402

OUT = programs.ROOT / "docs/pictures"
LIGHT = [["--mode=poisson", "--rate=20", *load[1:]] for load in load_mix.ANSWERED]
# Sequences that stay: few, as many as there is room for, and more, so that pages of the idle move to the host.
FLAGS = [f"{flag},host_pages=16" if flag.startswith("--kv_profiles=") else flag for flag in load_mix.SERVER_FLAGS]
RESIDENT = "--decode=profile=watched,heads=4,prefill=16~200,steps=100"
FEW, FULL, MORE = ([RESIDENT, "--mode=poisson", f"--rate={rate}"] for rate in (2, 8, 40))
UNITS = {"s": "s", "reqps": "req/s", "ops": "1/s", "flops": "FLOP/s", "bytes": "B", "Bps": "B/s", "short": ""}
STEP_SECONDS = 2


def rows(panels):
    """(title, panels) of each row of the dashboard."""
    found = []
    for panel in panels:
        if panel["type"] == "row":
            found.append((panel["title"], []))
        else:
            found[-1][1].append(panel)
    return found


def legend_of(target, labels):
    text = target["legendFormat"]
    for label, value in labels.items():
        text = text.replace("{{" + label + "}}", value)
    return text


def lines_of(panel, api, begin, end):
    for target in panel["targets"]:
        for series in api.over(for_prometheus(target["expr"]), begin, end, STEP_SECONDS):
            times, values = zip(*((at - begin, float(value)) for at, value in series["values"]), strict=True)
            yield legend_of(target, series["metric"]), times, values


def draw_lines(axes, panel, api, begin, end):
    lines = [(legend, times, values) for legend, times, values in lines_of(panel, api, begin, end)]
    moving = [line for line in lines if any(value == value and value != 0 for value in line[2])]
    for legend, times, values in moving:
        axes.plot(times, values, linewidth=1.2, label=legend)
    if not lines:
        axes.text(
            0.5, 0.5, panel["fieldConfig"]["defaults"]["noValue"], ha="center", transform=axes.transAxes, color="gray"
        )
    if len(lines) > len(moving):
        axes.plot([], [], " ", label=f"and {len(lines) - len(moving)} at 0")
    if lines:
        axes.legend(fontsize=6, loc="upper left")
    unit = panel["fieldConfig"]["defaults"]["unit"]
    axes.yaxis.set_major_formatter(PercentFormatter(1) if unit == "percentunit" else EngFormatter(UNITS[unit]))
    axes.set_xlim(0, end - begin)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.3)


def draw_table(axes, panel, api):
    found = [series["metric"] for target in panel["targets"] for series in api.series(for_prometheus(target["expr"]))]
    merged = {label: value for labels in found for label, value in labels.items()}
    axes.axis("off")
    axes.table([[label, value] for label, value in merged.items()], loc="center", cellLoc="left")


def draw_row(title, panels, api, begin, end, file):
    columns = 3
    lines = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(lines, columns, figsize=(15, 3.3 * lines), squeeze=False, layout="constrained")
    figure.suptitle(title, fontsize=13, x=0.01, ha="left")
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.set_title(panel["title"], fontsize=9, loc="left")
        draw_table(axes, panel, api) if panel["type"] == "table" else draw_lines(axes, panel, api, begin, end)
    for axes in list(grid.flat)[len(panels) :]:
        axes.axis("off")
    figure.savefig(file, dpi=72)
    pyplot.close(figure)


def main(seconds):
    panels = json.loads((programs.ROOT / "deploy/grafana/dashboards/tessera.json").read_text())["panels"]
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with (
            programs.tessera_server(folder, *FLAGS) as server,
            programs.prometheus(folder, [server.metrics]) as address,
        ):
            api = PrometheusApi(address)
            api.await_value("sum(up)", 1)
            begin = time.time()
            load_mix.offer(server.target, [*LIGHT, FEW], seconds, folder)
            load_mix.offer(server.target, [*load_mix.ANSWERED, FULL], seconds, folder)
            load_mix.offer(server.target, [*load_mix.ANSWERED, *load_mix.OVERLOAD, MORE], seconds, folder)
            end = time.time()
            for title, in_row in rows(panels):
                draw_row(title, in_row, api, begin, end, OUT / f"dashboard_{title.lower().replace(' ', '_')}.png")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
