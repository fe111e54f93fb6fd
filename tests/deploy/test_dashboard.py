"""The dashboard's file by itself: what Grafana needs of it, and that it leaves no metric out."""

import json
import subprocess
import sys

import metric_names
import programs

FOLDER = programs.ROOT / "deploy/grafana"
DASHBOARD = json.loads((FOLDER / "dashboards/tessera.json").read_text())
PANELS = DASHBOARD["panels"]

# Exported for other uses: starts without their ends, what a process lister shows, and what only alerts look at.
NOT_SHOWN = {
    "grpc_server_started_total",
    "process_virtual_memory_bytes",
    "process_threads",
    "tessera_credential_reloads_total",
    "tessera_regions",
    "tessera_tls_certificate_expiry_timestamp_seconds",
}


def test_file_is_what_its_program_writes():
    subprocess.run([sys.executable, FOLDER / "dashboard.py", "--check"], check=True)


def test_it_can_be_imported_anywhere():
    assert DASHBOARD["id"] is None
    assert DASHBOARD["uid"] == "tessera"
    assert DASHBOARD["templating"]["list"][0] == {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }
    chosen = [panel["datasource"] for panel in PANELS if panel["type"] != "row"]
    chosen += [target["datasource"] for panel in PANELS for target in panel.get("targets", [])]
    assert chosen and all(datasource["uid"] == "${datasource}" for datasource in chosen)


def test_panels_have_places_of_their_own():
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken = set()
    for panel in PANELS:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_panels_say_what_they_show():
    for panel in PANELS:
        if panel["type"] != "row":
            assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"] and panel["targets"], panel[
                "title"
            ]


def test_every_metric_is_shown_and_every_one_shown_is_exported():
    shown = set().union(
        *(metric_names.asked_for(target["expr"]) for panel in PANELS for target in panel.get("targets", []))
    )
    shown |= metric_names.asked_for(DASHBOARD["annotations"]["list"][0]["expr"])
    assert shown - {"up"} == metric_names.EXPORTED - NOT_SHOWN
