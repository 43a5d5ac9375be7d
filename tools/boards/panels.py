"""What the dashboards of gpumond have in common: selectors, variables, panels by what they show, links between levels.

Grafana's own builder gives a panel no id and a target no letter; `Board` does, so that links to a panel stay right.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import (
    barchart,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    statushistory,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders.common import (
    ReduceDataOptions,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import prometheus as prometheus_model

DATASOURCE = common.DataSourceRef(type_val="prometheus", uid="${datasource}")
HOST = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'
"""Selects the hosts that are chosen; in every query."""
SERIES = f'{HOST}, sweep=~"$sweep", gpu_set=~"$gpu_set", collective=~"$collective"'
POINT = f'{SERIES}, size_bytes=~"$size_bytes"'

TAG = "gpumond"
NIGHTLY = "1h"
"""Values that change once a night: asking for more points than hours shows nothing more."""

GREEN, YELLOW, RED, GREY, BLUE = "green", "yellow", "red", "text", "blue"
YES_NO = {0: ("no", RED), 1: ("yes", GREEN)}
UP_DOWN = {0: ("down", RED), 1: ("up", GREEN)}
RUNNING = {0: ("", GREY), 1: ("running", BLUE)}
VERDICTS = {0: ("ok", GREEN), 1: ("not evaluated", GREY), 2: ("degraded", YELLOW), 3: ("failed", RED)}


@dataclass
class Query:
    """`legend` names a series; a query for a table is instant, and has a field for every label."""

    expression: str
    legend: str = ""
    is_table: bool = False


@dataclass
class Board:
    """A dashboard that is being filled; Grafana's builder lays the panels out, from left to right and from the top down."""

    builder: dashboard.Dashboard
    _id: int = 0

    def row(self, title: str) -> None:
        self.builder.with_row(dashboard.Row(title).id(self._next_id()))

    def add(
        self, panel: Any, *, title: str, says: str, width: int, height: int, queries: Sequence[Query]
    ) -> None:
        panel.id(self._next_id()).title(title).description(says).datasource(DATASOURCE).span(width).height(
            height
        )
        for letter, query in zip(string.ascii_uppercase, queries, strict=False):
            panel.with_target(target(query, letter))
        self.builder.with_panel(panel)

    def _next_id(self) -> int:
        self._id += 1
        return self._id

    def text(self) -> str:
        """As committed: sorted keys, so that a change of one thing is a change of one line."""
        document = json.loads(json.dumps(self.builder.build(), cls=JSONEncoder))
        return json.dumps(in_sight(document), indent=2, sort_keys=True) + "\n"


def in_sight(document: Any) -> Any:
    """`document` without the builder's placement of links and annotations: in a menu, where nobody looks."""
    if isinstance(document, dict):
        return {
            key: in_sight(value)
            for key, value in document.items()
            if (key, value) != ("placement", "inControlsMenu")
        }
    return [in_sight(item) for item in document] if isinstance(document, list) else document


def target(query: Query, letter: str) -> prometheus.Dataquery:
    built = prometheus.Dataquery().datasource(DATASOURCE).expr(query.expression).ref_id(letter)
    if query.is_table:
        return built.instant().format(prometheus_model.PromQueryFormat.TABLE)
    return built.range().legend_format(query.legend or "__auto")


# Dashboards


def board(uid: str, title: str, says: str, *, since: str, variables: Iterable[Any] = ()) -> Board:
    builder = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(says)
        .tags([TAG])
        .readonly()
        .time(since, "now")
        .timezone("browser")
        .refresh("1m")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .link(_links())
        .annotation(
            _annotation(
                "Topology changes",
                f"changes(gpumond_topology_last_change_timestamp_seconds{{{HOST}}}[$__rate_interval]) > 0",
                "{{instance}}: topology changed",
                "orange",
            )
        )
        .annotation(
            _annotation(
                "Driver upgrades",
                # A driver that was not there an hour ago, on a host that was.
                f"group by (instance, driver_version) (gpumond_node_info{{{HOST}}})"
                f" unless group by (instance, driver_version) (gpumond_node_info{{{HOST}}} offset 1h)"
                f" and on (instance) group by (instance) (gpumond_node_info{{{HOST}}} offset 1h)",
                "{{instance}}: driver {{driver_version}}",
                "purple",
            )
        )
    )
    for variable in (*_base_variables(), *variables):
        builder.with_variable(variable)
    return Board(builder)


def _links() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("gpumond")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(as_dropdown=False)
        .include_vars(include_vars=True)
        .keep_time(keep_time=True)
    )


def _annotation(name: str, expression: str, title: str, color: str) -> dashboard.AnnotationQuery:
    return (
        dashboard.AnnotationQuery()
        .name(name)
        .datasource(DATASOURCE)
        .enable(enable=True)
        .icon_color(color)
        .expr(expression)
        .step("5m")
        .title_format(title)
        .tag_keys("instance")
    )


def _base_variables() -> Iterable[Any]:
    yield dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    # A site without clusters has no such label; an empty value matches that, `.+` would not.
    yield label_variable("cluster", "Cluster", "gpumond_build_info", all_value=".*")
    yield label_variable("job", "Job", 'gpumond_build_info{cluster=~"$cluster"}')
    yield label_variable("instance", "Host", 'gpumond_build_info{cluster=~"$cluster", job=~"$job"}')


def label_variable(name: str, label: str, selector: str, *, all_value: str = ".+") -> dashboard.QueryVariable:
    query = f"label_values({selector}, {name})"
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query({"query": query, "refId": f"variable-{name}"})
        .definition(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.NATURAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(all_value)
        .current(model.VariableOption(selected=True, text="All", value="$__all"))
    )


_CHOSEN_HERE = "&".join(f"${{{name}:queryparam}}" for name in ("datasource", "cluster", "job"))


def link_to(uid: str, title: str, *labels: str) -> dashboard.DashboardLink:
    """A data link of a panel, one level down: the labels of the series that was clicked are chosen there."""
    chosen = "&".join(f"var-{label}=${{__field.labels.{label}}}" for label in labels)
    return (
        dashboard.DashboardLink(title)
        .type(model.DashboardLinkType.LINK)
        .url(f"/d/{uid}?{chosen}&{_CHOSEN_HERE}&${{__url_time_range}}")
    )


def row_link(uid: str, title: str, **fields: str) -> list[dict[str, Any]]:
    """The same for a column of a table, as an override wants it: variable = the name of a field of the row."""
    chosen = "&".join(f"var-{variable}=${{__data.fields.{name}}}" for variable, name in fields.items())
    return [{"title": title, "url": f"/d/{uid}?{chosen}&{_CHOSEN_HERE}&${{__url_time_range}}"}]


# Panels


def steps(*pairs: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    """(from this value on, colour); the first has None."""
    return (
        dashboard.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=color) for value, color in pairs])
    )


NONE_IS_GOOD = ((None, GREEN), (1, RED))


def mapped(values: dict[int, tuple[str, str]]) -> list[Any]:
    results = {
        str(value): model.ValueMappingResult(text=text, color=color, index=place)
        for place, (value, (text, color)) in enumerate(values.items())
    }
    return [model.ValueMap(options=results)]


def number(unit: str, *colors: tuple[float | None, str]) -> stat.Panel:
    """One number of now."""
    return (
        stat.Panel()
        .unit(unit)
        .thresholds(steps(*(colors or ((None, BLUE),))))
        .color_mode(common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
    )


def lines(unit: str, *, interval: str = "", from_zero: bool = True) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .unit(unit)
        .line_width(2)
        .fill_opacity(0)
        .show_points(common.VisibilityMode.NEVER)
        .legend(
            VizLegendOptions()
            .display_mode(common.LegendDisplayMode.TABLE)
            .placement(common.LegendPlacement.RIGHT)
            .show_legend(show_legend=True)
            .calcs(["lastNotNull", "min"])
        )
        .tooltip(VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )
    if from_zero:
        panel.min(0)
    return panel.interval(interval) if interval else panel


def states(values: dict[int, tuple[str, str]], *, interval: str = "") -> statetimeline.Panel:
    """What was in which state, and when."""
    panel = (
        statetimeline.Panel()
        .unit("short")
        .mappings(mapped(values))
        .thresholds(steps((None, GREY)))
        .show_value(common.VisibilityMode.NEVER)
        .merge_values(merge_values=True)
        .row_height(0.8)
    )
    return panel.interval(interval) if interval else panel


def nights(unit: str, *colors: tuple[float | None, str]) -> statushistory.Panel:
    """Host by night: one cell a day."""
    return (
        statushistory.Panel()
        .unit(unit)
        .decimals(1)
        .thresholds(steps(*colors))
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .show_value(common.VisibilityMode.AUTO)
        .interval("1d")
    )


def bars(unit: str) -> barchart.Panel:
    return barchart.Panel().unit(unit).min(0).show_value(common.VisibilityMode.NEVER)


def cells(unit: str = "short") -> table.Panel:
    return table.Panel().unit(unit).show_header(show_header=True)


def transformation(name: str, **options: Any) -> model.DataTransformerConfig:
    return model.DataTransformerConfig(id_val=name, options=options)


def columns(**names: str) -> list[model.DataTransformerConfig]:
    """Only these fields of a table, in this order, under these names. `Value #A` is written `Value_A`."""
    fields = {name.replace("Value_", "Value #"): shown for name, shown in names.items()}
    return [
        transformation("filterFieldsByName", include={"names": list(fields)}),
        transformation(
            "organize",
            indexByName={name: place for place, name in enumerate(fields)},
            renameByName={name: shown for name, shown in fields.items() if name != shown},
        ),
    ]


def properties(**values: Any) -> list[model.DynamicConfigValue]:
    """Of an override; `custom_cellOptions` stands for `custom.cellOptions`."""
    return [
        model.DynamicConfigValue(id_val=name.replace("custom_", "custom."), value=value)
        for name, value in values.items()
    ]
