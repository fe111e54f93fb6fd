"""Panels, rows and variables in the form that Grafana loads."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24


def panel(
    title,
    description,
    queries,
    *,
    kind="timeseries",
    unit="short",
    width=8,
    height=7,
    stacked=False,
    steps=None,
    maximum=None,
    nothing=None,
):
    """One panel. `queries`: (expression, legend). `steps`: (value, colour) from which on a stat is coloured so."""
    custom = {}
    if kind == "timeseries":
        custom = {
            "lineWidth": 1,
            "fillOpacity": 30 if stacked else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if stacked else "none"},
        }
    defaults = {"unit": unit, "min": 0, "custom": custom}
    if maximum is not None:
        defaults["max"] = maximum
    if nothing:
        defaults["noValue"] = nothing
    if steps:
        defaults["color"] = {"mode": "thresholds"}
        defaults["thresholds"] = {
            "mode": "absolute",
            "steps": [{"value": value, "color": colour} for value, colour in steps],
        }
    options = {
        "timeseries": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"},
        "table": {"showHeader": True},
    }[kind]
    instant = {"instant": True, "range": False, "format": "table"} if kind == "table" else {"range": True}
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": DATASOURCE,
            "expr": expression,
            "legendFormat": legend,
            **instant,
        }
        for index, (expression, legend) in enumerate(queries)
    ]
    result = {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "gridPos": {"w": width, "h": height},
    }
    if kind == "table":
        hidden = {"Time": True, "Value": True, "Value #A": True, "Value #B": True, "__name__": True, "job": True}
        result["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": hidden}},
        ]
    return result


def place(rows):
    """Panels in reading order with ids and places: a header for each row, then its panels from left to right."""
    placed, x, y, line_height = [], 0, 0, 0
    for title, panels in rows:
        y += line_height
        placed.append(
            {
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
            }
        )
        x, y, line_height = 0, y + 1, 0
        for one in panels:
            size = one["gridPos"]
            if x + size["w"] > COLUMNS:
                x, y, line_height = 0, y + line_height, 0
            one["gridPos"] = {"x": x, "y": y, **size}
            x += size["w"]
            line_height = max(line_height, size["h"])
            placed.append(one)
    for number, one in enumerate(placed, start=1):
        one["id"] = number
    return placed


def choice(name, label, metric_label):
    query = f'label_values(up{{job="tessera"}}, {metric_label})'
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
