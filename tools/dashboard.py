"""The dashboards for Grafana, from lists of their panels. `make generate` writes them into the chart."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from modelyard.engines.measured import FIGURES

Json = dict[str, Any]

_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 2
_WIDTH: Final = 24 // _COLUMNS
_HEIGHT: Final = 8


class Panel(Struct, frozen=True):
    """A graph: what it shows, by which query, and how its lines are called."""

    title: str
    query: str
    legend: str
    unit: str = "short"


class Board(Struct, frozen=True):
    """A dashboard: what it is called, and its graphs, two in a row."""

    title: str
    uid: str
    panels: tuple[Panel, ...]


OPERATOR: Final = (
    Panel("Objects", "max by (kind) (modelyard_objects)", "{{kind}}"),
    Panel("Leaders (must be 1)", "sum(modelyard_leader)", "leaders"),
    Panel(
        "Reconciles by outcome",
        "sum by (outcome) (rate(modelyard_reconciles_total[$__rate_interval]))",
        "{{outcome}}",
        "ops",
    ),
    Panel(
        "Reconcile, 99th percentile",
        "histogram_quantile(0.99, sum by (kind, le) (rate(modelyard_reconcile_seconds_bucket[$__rate_interval])))",
        "{{kind}}",
        "s",
    ),
    Panel("Objects that wait", "max(modelyard_queue_depth)", "waiting"),
    Panel("Longest wait", "max(modelyard_queue_age_seconds)", "oldest", "s"),
    Panel(
        "Writes to the API server (none at rest but the Lease)",
        'sum by (verb, resource) (rate(modelyard_api_requests_total{verb=~"create|update|patch|delete"}'
        "[$__rate_interval]))",
        "{{verb}} {{resource}}",
        "reqps",
    ),
    Panel(
        "API server, 99th percentile",
        "histogram_quantile(0.99, sum by (verb, le) (rate(modelyard_api_seconds_bucket[$__rate_interval])))",
        "{{verb}}",
        "s",
    ),
    Panel(
        "Children changed by others",
        "sum by (what, resource) (increase(modelyard_child_differences_total[$__rate_interval]))",
        "{{what}} {{resource}}",
    ),
    Panel(
        "Watches opened again",
        "sum by (resource) (increase(modelyard_watch_restarts_total[$__rate_interval]))",
        "{{resource}}",
    ),
)


ENGINES: Final = tuple(
    Panel(
        figure.text.partition(";")[0].removesuffix("."),
        # Not a sum: while another replica takes over, both may have shown the figure of an object.
        f"max by (namespace, kind, name) ({figure.name})",
        "{{namespace}}/{{name}}",
        figure.unit,
    )
    for figure in FIGURES
)

BOARDS: Final = {
    "operator": Board("Modelyard operator", "modelyard-operator", OPERATOR),
    "engines": Board("Modelyard models", "modelyard-engines", ENGINES),
}
"""The dashboards, by the name of their file."""


def text(board: Board) -> str:
    """Return a dashboard as JSON."""
    body = {
        "title": board.title,
        "uid": board.uid,
        "tags": ["modelyard"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(number, panel) for number, panel in enumerate(board.panels)],
    }
    return msgspec.json.format(msgspec.json.encode(body), indent=2).decode() + "\n"


def _panel(number: int, panel: Panel) -> Json:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": panel.query, "legendFormat": panel.legend}],
    }
