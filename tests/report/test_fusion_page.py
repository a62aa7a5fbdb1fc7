"""The page of a fusion: complete, readable without a network, however many nodes and features."""

from __future__ import annotations

import math
import re
from typing import Any
from xml.etree import ElementTree

import msgspec
import numpy as np
import pytest

from streamlvq.fusion import Clipping, ClusterReport, fuse
from streamlvq.fusion.report import (
    Edge,
    FusionReport,
    NodeReport,
    node_notes,
    node_rows,
    unprotected_note,
)
from streamlvq.models.pool import PoolReport
from streamlvq.plot.graphs import ring_spots, upper_nodes
from streamlvq.report.fusion_maps import (
    MAX_MAP_COLUMNS,
    MAX_MAP_ROWS,
    deviations,
    gains_drawing,
    natural,
    offsets_drawing,
    shift_offsets,
)
from streamlvq.report.fusion_page import (
    MAX_NAMED_NODES,
    fusion_html,
    graph_drawing,
    graph_words,
    pool_drawing,
)
from streamlvq.report.fusion_prototypes import (
    MAX_DRAWN_CLASSES,
    MAX_DRAWN_NODES,
    MAX_LINE_POINTS,
    prototype_drawings,
)
from streamlvq.report.html import DRAWING_WIDTH
from support.pages import read
from support.small_fleet import FEATURES, LABELS, OFF, UNITS, fleet, report_of

replace = msgspec.structs.replace
EVIL = '<script>alert("x")</script>&\'"'


@pytest.fixture(scope="module")
def report() -> FusionReport:
    return report_of(fleet())


def changed(report: FusionReport, node: str, **changes: Any) -> FusionReport:
    nodes = {**report.nodes, node: replace(report.nodes[node], **changes)}
    return replace(report, nodes=nodes)


def many_nodes(count: int, features: int = 3, classes: int = 2) -> FusionReport:
    """A fleet in which everybody shares everything."""
    names = [f"node {k:03}" for k in range(count)]
    labels = tuple(f"class {k}" for k in range(classes))
    columns = tuple(f"band {k}" for k in range(features))
    nodes = {
        name: NodeReport(name, 10, dict.fromkeys(labels, 5), 0,
                         {c: math.sin(k + j) for j, c in enumerate(columns)},
                         dict.fromkeys(columns, 1.0), 0.7, 0.1, dict.fromkeys(labels, 1 / count),
                         (), (), None)
        for k, name in enumerate(names)
    }  # fmt: skip
    edges = [Edge(a, b, labels, 0.1) for k, a in enumerate(names) for b in names[k + 1 :]]
    return FusionReport(nodes, (tuple(names),), tuple(edges), labels, columns, "samples", "mean",
                        "least_squares", "because", {}, 1.0, None, 0.0, (), ())  # fmt: skip


# --- the whole -----------------------------------------------------------------------------------


def test_the_page_shows_everything(report: FusionReport) -> None:
    reader = read(fusion_html(report, fleet(), fuse(fleet())))
    words = " ".join(reader.words)
    for wanted in (
        "Fusion of 3 nodes", "GMLVQ", "Who shares classes with whom", "Prototypes before and after",
        "Which correction", report.why, report.warnings[0], "new to york", "Weights", *OFF, *LABELS,
        *FEATURES,
    ):  # fmt: skip
        assert wanted in words
    assert reader.tags.count("svg") == 1 + 1 + 3 * 3  # graph, map, three classes of two panels


def test_the_page_needs_nothing_else(report: FusionReport) -> None:
    text = fusion_html(report, fleet(), fuse(fleet()))
    assert read(text).references == []
    assert not re.search(r"https?:|//[a-z]+\.|@import|<script|<link|<iframe", text)
    assert set(re.findall(r"url\((.*?)\)", text)) <= {"#hatch"}


def test_light_and_dark(report: FusionReport) -> None:
    text = fusion_html(report, fleet(), fuse(fleet()))
    light, _, dark = text.partition("prefers-color-scheme: dark")
    for name in set(re.findall(r"var\((--[a-z]+)\)", text)) - {"--share", "--red"}:
        assert f"{name}:" in light
        assert f"{name}:" in dark


def test_the_same_report_gives_the_same_page(report: FusionReport) -> None:
    again = msgspec.json.decode(msgspec.json.encode(report), type=FusionReport)
    assert fusion_html(again, fleet(), fuse(fleet())) == fusion_html(
        report, fleet()[::-1], fuse(fleet()[::-1])
    )


def test_names_cannot_break_the_page(report: FusionReport) -> None:
    node = replace(
        report.nodes["york"],
        node=EVIL,
        gained=(EVIL,),
        left_out=EVIL,
        clipped=(Clipping("class_left_out", label=EVIL, deviations=9.0),),
    )
    evil = replace(
        report,
        nodes={"bath": report.nodes["bath"], EVIL: node},
        components=(("bath", EVIL),),
        edges=(Edge("bath", EVIL, (EVIL,), 0.1),),
        labels=(EVIL, *LABELS),
        features=(EVIL, *FEATURES),
        why=EVIL,
        warnings=(EVIL,),
        drift=EVIL,
        trials={EVIL: 1.0},
    )
    reader = read(fusion_html(evil, fleet()))
    assert "script" not in reader.tags
    assert any(EVIL in word for word in reader.words)


def test_without_snapshots_it_shows_what_is_in_the_report(report: FusionReport) -> None:
    words = " ".join(read(fusion_html(report)).words)
    assert "york" in words
    assert "Prototypes before" not in words


def test_nothing_corrected(report: FusionReport) -> None:
    alone = replace(report, drift="none", trials={}, why="no correction: asked for")
    words = " ".join(read(fusion_html(alone, fleet())).words)
    assert "Nothing was corrected." in words
    assert words.count("no correction: asked for") == 2


@pytest.mark.parametrize("name", ["GLVQ", "GRLVQ", "LGMLVQ", "LMRSLVQ", "PairwiseLVQ"])
def test_every_kind_of_model_has_a_page(name: str) -> None:
    fused = fuse(fleet(name))
    text = fusion_html(fused.report, fleet(name), fused)
    assert name in " ".join(read(text).words)
    for label, drawing in prototype_drawings(fused.report, fleet(name), fused):
        assert set(lines(drawing, 1)) == {*OFF, "fused"} - ({"york"} if label == "worn" else set())


def test_names_that_are_numbers() -> None:
    import streamlvq
    from streamlvq.snapshot import Snapshot

    snapshots = []
    for k, node in enumerate("ab"):
        model = streamlvq.GLVQ()
        rows = np.random.default_rng(k).normal(size=(60, 3)) + np.arange(60)[:, None] % 2 * 4 + k
        model.learn_array(rows, [0, 1] * 30, features=[1, 2, 10])
        snapshots.append(Snapshot.of(model, node, readings=False))
    fused = fuse(snapshots)
    drawings = dict(prototype_drawings(fused.report, snapshots, fused))
    assert set(drawings) == {"0", "1"}
    assert set(lines(drawings["0"], 0)) == {"a", "b"}
    assert not np.isnan(shift_offsets(fused.report, snapshots)["a"]).any()


def test_large_fleets_stay_readable() -> None:
    report = many_nodes(200, features=1000, classes=30)
    text = fusion_html(report)
    assert len(text) < 3_000_000
    words = " ".join(read(text).words)
    assert "Point at a node for its name" in words
    assert "thin lines are not shown" in words


# --- the graph -----------------------------------------------------------------------------------


def elements(drawing: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(drawing).iter(tag))


def test_graph_tells_nodes_and_edges_apart(report: FusionReport) -> None:
    report = changed(report, "leeds", left_out="it contradicts all others")
    report = changed(report, "bath", clipped=(Clipping("scale_cut"),))
    drawing = graph_drawing(report)
    kinds = {e.findtext("title").split(":")[0]: e.get("class") for e in elements(drawing, "circle")}
    assert kinds == {"bath": "node clipped", "leeds": "node out", "york": "node"}
    widths = {e.findtext("title").split(":")[0]: float(e.get("stroke-width"))
              for e in elements(drawing, "path")}  # fmt: skip
    assert widths["bath and leeds share 3"] > widths["bath and york share 2"]
    assert "left out" in drawing
    assert "+ worn" in drawing


def test_edges_are_redder_the_less_they_agree(report: FusionReport) -> None:
    edges = (Edge("bath", "leeds", LABELS, 0.1), Edge("bath", "york", LABELS, 7.0),
             Edge("leeds", "york", LABELS, math.nan))  # fmt: skip
    paths = elements(graph_drawing(replace(report, edges=edges)), "path")
    assert [e.get("style") for e in paths] == ["--red:10%", "--red:100%", "--red:100%"]


def test_nodes_are_within_the_drawing_and_apart() -> None:
    for count in (1, 2, 3, 7, 40, MAX_NAMED_NODES + 1):
        report = many_nodes(count)
        drawing = graph_drawing(report)
        _, _, width, height = map(float, ElementTree.fromstring(drawing).get("viewBox").split())
        spots = [(float(e.get("cx")), float(e.get("cy"))) for e in elements(drawing, "circle")]
        assert len(set(spots)) == count
        assert all(10 < x < width - 10 and 10 < y < height - 10 for x, y in spots)
        named = len(elements(drawing, "text")) > 0
        assert named == (count <= MAX_NAMED_NODES)


def boxes(drawing: str) -> list[tuple[float, float, float, float]]:
    """About where the words of a drawing are: left, top, right, bottom."""
    found = []
    for text in elements(drawing, "text"):
        wide = 6.5 * len("".join(text.itertext()).strip())
        x, y, anchor = float(text.get("x")), float(text.get("y")), text.get("text-anchor")
        left = {"start": x, "end": x - wide, "middle": x - wide / 2}[anchor]
        found.append((left, y - 10, left + wide, y + 2))
    return found


def crosses(box: tuple[float, float, float, float], path: ElementTree.Element) -> bool:
    x1, y1, x2, y2 = map(float, re.findall(r"-?[\d.]+", path.get("d")))
    points = ((x1 + t * (x2 - x1), y1 + t * (y2 - y1)) for t in np.linspace(0, 1, 400))
    return any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 12, 20, MAX_NAMED_NODES])
def test_names_lie_beside_lines_and_within_the_drawing(count: int) -> None:
    report = changed(many_nodes(count), "node 000", gained=("class 1",))
    drawing = graph_drawing(report)
    _, _, width, height = map(float, ElementTree.fromstring(drawing).get("viewBox").split())
    paths = elements(drawing, "path")
    for box in boxes(drawing):
        assert not any(crosses(box, path) for path in paths)
        assert box[0] >= 0 and box[1] >= 0
        assert box[2] <= width and box[3] <= height
    shown = boxes(drawing)
    for k, (left, top, right, bottom) in enumerate(shown):
        for other in shown[k + 1 :]:
            apart = other[0] >= right or left >= other[2] or other[1] >= bottom or top >= other[3]
            assert apart or count > 12  # of very many, rows may touch


def test_names_are_cut_only_where_there_is_no_room(report: FusionReport) -> None:
    long = "assembly hall north, line 1"
    nodes = {
        long if name == "leeds" else name: replace(node, node=long if name == "leeds" else name)
        for name, node in report.nodes.items()
    }
    named = replace(report, nodes=nodes, components=(("bath", long, "york"),), edges=())
    assert f">{long} <" in graph_drawing(named)
    endless = "n" * 500
    nodes = {endless: replace(report.nodes["bath"], node=endless)}
    drawing = graph_drawing(replace(report, nodes=nodes, components=((endless,),), edges=()))
    assert endless not in re.sub(r"<title>.*?</title>", "", drawing)
    offsets = {long: np.array([1.0]), "york": np.array([0.0])}
    assert f">{long}</text>" in offsets_drawing(["temperature of the bearing"], offsets)


def test_parts_are_drawn_apart_and_explained(report: FusionReport) -> None:
    apart = replace(report, components=(("bath", "leeds"), ("york",)), edges=report.edges[:1])
    assert "2 parts that share no class" in graph_words(apart)
    spots = ring_spots(apart.components)
    assert spots["york"][0] > max(spots["bath"][0], spots["leeds"][0]) + 1
    assert spots["bath"][1] == spots["leeds"][1]


def test_rings_do_not_touch() -> None:
    components = [[f"{k}.{j}" for j in range(size)] for k, size in enumerate((9, 1, 1, 4, 2, 1, 6))]
    spots = ring_spots(components)
    for k, ours in enumerate(components):
        for theirs in components[k + 1 :]:
            gaps = [math.dist(spots[a], spots[b]) for a in ours for b in theirs]
            assert min(gaps) > 2
    assert upper_nodes(components, spots) >= {"0.0", "3.0", "6.0"}
    assert "4.0" not in upper_nodes(components, spots)  # of two that lie, none is above


# --- shifts --------------------------------------------------------------------------------------


def test_offsets_are_in_within_class_deviations(report: FusionReport) -> None:
    for name, offsets in shift_offsets(report, fleet()).items():
        np.testing.assert_allclose(offsets, OFF[name], rtol=0.15, atol=1e-9)


def test_one_node_cannot_change_the_unit(report: FusionReport) -> None:
    """The median of the nodes: a liar among three changes little."""
    honest = deviations(report, fleet())
    liar = fleet()[0].classifier()
    liar._engine.state["class_variance"][:] *= 1e12
    from streamlvq.snapshot import Snapshot

    with_liar = deviations(report, [Snapshot.of(liar, "bath"), *fleet()[1:]])
    np.testing.assert_allclose(with_liar, honest, rtol=0.3)


def test_with_a_gain_the_offset_is_that_of_the_mean_reading(report: FusionReport) -> None:
    gains = dict.fromkeys(FEATURES, 2.0)
    twice = changed(report, "bath", gain=gains, shift=dict.fromkeys(FEATURES, 0.0))
    offsets = shift_offsets(twice, fleet())["bath"]
    snapshot = fleet()[0]
    counts = np.array(list(snapshot.counts.values()))
    means = np.array([[row[name] for name in FEATURES] for row in snapshot.means.values()])
    middle = counts @ means / counts.sum()
    np.testing.assert_allclose(offsets, 0.5 * middle / deviations(twice, fleet()), rtol=1e-9)


def test_features_without_a_unit_are_unknown(report: FusionReport) -> None:
    more = replace(report, features=(*FEATURES, "never seen"))
    offsets = shift_offsets(more, fleet())
    assert all(math.isnan(values[-1]) for values in offsets.values())
    assert 'class="unknown"' in offsets_drawing(more.features, offsets)


def cells(drawing: str, node: str) -> list[ElementTree.Element]:
    return [e for e in elements(drawing, "rect") if e.findtext("title").startswith(f"{node},")]


def test_map_shows_sign_and_strength() -> None:
    offsets = {"a": np.array([2.0, -1.0, 0.0]), "b": np.array([0.1, 0.0, 0.5])}
    drawing = offsets_drawing(["x", "y", "z"], offsets)
    shown = [(e.get("class"), float(e.get("fill-opacity"))) for e in cells(drawing, "a")]
    assert [kind for kind, _ in shown] == ["above", "below", "below"]
    assert shown[0][1] > shown[1][1] > shown[2][1] == 0.0
    assert cells(drawing, "a")[0].findtext("title") == "a, x: +2.00 within-class deviations"


def test_one_feature_that_is_far_off_does_not_bleach_the_others() -> None:
    drawing = offsets_drawing(["x", "y"], {"a": np.array([60.0, 1.5]), "b": np.array([-9.0, 0.0])})
    strengths = [float(e.get("fill-opacity")) for e in cells(drawing, "a")]
    assert strengths == [1.0, 0.5]
    gains = gains_drawing(["x", "y"], {"a": np.array([64.0, 2.0**0.5])})
    assert [float(e.get("fill-opacity")) for e in cells(gains, "a")] == [1.0, 0.5]


def test_names_of_features_are_level_where_they_fit() -> None:
    few = offsets_drawing(["heat", "noise"], {"a": np.zeros(2)})
    names = [e for e in elements(few, "text") if "column" in e.get("class")]
    assert [e.text for e in names] == ["heat", "noise"]
    assert all(e.get("transform") is None for e in names)
    many = offsets_drawing([f"vibration of bearing {k}" for k in range(20)], {"a": np.zeros(20)})
    names = [e for e in elements(many, "text") if "column" in e.get("class")]
    assert names[0].text == "vibration of bearing 0"
    assert all("rotate" in e.get("transform") for e in names)


def test_map_of_many_features_shows_the_furthest_of_neighbours() -> None:
    values = np.full(10 * MAX_MAP_COLUMNS, 0.1)
    values[7] = -3.0
    drawing = offsets_drawing([f"band {k}" for k in range(len(values))], {"a": values})
    shown = cells(drawing, "a")
    assert len(shown) == MAX_MAP_COLUMNS
    assert shown[0].findtext("title") == "a, band 7: -3.00 within-class deviations"
    assert len(elements(drawing, "text")) <= 32


def test_map_of_many_nodes_shows_those_that_are_furthest_off() -> None:
    offsets = {f"n{k:03}": np.array([k / 10.0]) for k in range(2 * MAX_MAP_ROWS)}
    drawing = offsets_drawing(["x"], offsets)
    assert len(elements(drawing, "rect")) == MAX_MAP_ROWS
    assert cells(drawing, f"n{2 * MAX_MAP_ROWS - 1:03}")
    assert not cells(drawing, "n000")


def test_gains_are_shown_as_ratios(report: FusionReport) -> None:
    drawing = gains_drawing(["x", "y"], {"a": np.array([2.0, 0.5]), "b": np.array([1.0, 1.0])})
    two, half = cells(drawing, "a")
    assert two.findtext("title") == "a, x: times 2.000"
    assert two.get("fill-opacity") == half.get("fill-opacity")
    assert (two.get("class"), half.get("class")) == ("above", "below")
    assert "<h2>Gains</h2>" not in fusion_html(report, fleet())
    other = changed(report, "york", gain=dict.fromkeys(FEATURES, 1.2))
    assert "<h2>Gains</h2>" in fusion_html(other, fleet())


# --- prototypes ----------------------------------------------------------------------------------


def lines(drawing: str, panel: int) -> dict[str, list[list[float]]]:
    """The heights of the points of each line of a panel, by node."""
    found: dict[str, list[list[float]]] = {}
    for group in list(ElementTree.fromstring(drawing).iter("svg"))[1 + panel].iter("g"):
        points = re.findall(r"[ML][\d.-]+ ([\d.-]+)", group.find("path").get("d"))
        found.setdefault(group.findtext("title"), []).append([float(y) for y in points])
    return found


def test_lines_come_together(report: FusionReport) -> None:
    drawings = dict(prototype_drawings(report, fleet(), None))
    assert list(drawings) == list(LABELS)
    before, after = (lines(drawings["running"], panel) for panel in (0, 1))
    assert set(before) == set(OFF)

    def apart(shown: dict[str, list[list[float]]]) -> float:
        means = np.array([np.mean(shown[name], axis=0) for name in OFF])
        return float(np.abs(means - means.mean(axis=0)).max())

    assert apart(after) < 0.4 * apart(before)
    np.testing.assert_allclose(before["bath"], after["bath"])  # it is not shifted


def test_a_feature_that_is_far_off_does_not_flatten_the_lines(report: FusionReport) -> None:
    """The left panel is what nodes know, whatever the report says: the right one is moved."""
    far = {**report.nodes["york"].shift, "heat": -1000.0 * UNITS[0]}
    drawing = dict(prototype_drawings(changed(report, "york", shift=far), fleet(), None))["idle"]
    heights = np.array(lines(drawing, 1)["bath"])
    assert np.ptp(heights) > 15  # of 150, although others are 1000 deviations away
    ticks = [e.text for e in elements(drawing, "text") if e.get("class") == "tick"]
    assert len(set(ticks)) >= 3
    assert "0" in ticks


def test_fused_lines_are_below_those_of_nodes(report: FusionReport) -> None:
    drawing = dict(prototype_drawings(report, fleet(), fuse(fleet())))["idle"]
    order = list(lines(drawing, 1))
    assert order[0] == "fused"
    assert set(order[1:]) == set(OFF)


def test_who_lacks_a_class_has_no_line(report: FusionReport) -> None:
    drawing = dict(prototype_drawings(report, fleet(), fuse(fleet())))["worn"]
    assert set(lines(drawing, 0)) == {"bath", "leeds"}
    assert set(lines(drawing, 1)) == {"bath", "leeds", "fused"}


def test_who_was_left_out_is_not_drawn(report: FusionReport) -> None:
    without = changed(report, "leeds", left_out="it lies")
    drawing = dict(prototype_drawings(without, fleet(), None))["idle"]
    assert set(lines(drawing, 0)) == {"bath", "york"}


def test_many_classes_show_those_that_were_gained() -> None:
    report = many_nodes(2, classes=3 * MAX_DRAWN_CLASSES)
    rare = report.labels[-1]
    drawn = dict(prototype_drawings(changed(report, "node 000", gained=(rare,)), (), None))
    assert len(drawn) == MAX_DRAWN_CLASSES
    assert rare in drawn


def test_many_features_are_averaged_and_many_nodes_are_not_all_drawn() -> None:
    import streamlvq
    from streamlvq.snapshot import Snapshot

    wide = 5 * MAX_LINE_POINTS
    model = streamlvq.GLVQ(max_prototypes_per_class=1)
    random = np.random.default_rng(0)
    columns = [f"band {k}" for k in range(wide)]
    model.learn_array(random.normal(size=(20, wide)), ["class 0", "class 1"] * 10, features=columns)
    report = many_nodes(2 * MAX_DRAWN_NODES, features=wide)
    snapshots = [Snapshot.of(model, name, readings=False) for name in report.nodes]
    drawing = dict(prototype_drawings(report, snapshots, None))["class 0"]
    shown = lines(drawing, 0)
    assert len(shown) == MAX_DRAWN_NODES
    assert {len(line) for rows in shown.values() for line in rows} == {MAX_LINE_POINTS}
    assert f"and {MAX_DRAWN_NODES} more, not drawn" in fusion_html(report, snapshots)


def test_parts_that_share_nothing_have_a_fused_line_each() -> None:
    import streamlvq
    from streamlvq.snapshot import Snapshot

    random = np.random.default_rng(0)
    snapshots = []
    for name, labels in {"a": "xy", "b": "xy", "c": "uv", "d": "uv"}.items():
        model = streamlvq.GLVQ(max_prototypes_per_class=1)
        rows = random.normal(size=(40, 3)) + np.arange(40)[:, None] % 2 * 5.0
        model.learn_array(rows, list(labels) * 20, features=["p", "q", "r"])
        snapshots.append(Snapshot.of(model, name, readings=False))
    fused = fuse(snapshots, drift="least_squares")
    assert len(fused.report.components) == 2
    drawings = dict(prototype_drawings(fused.report, snapshots, fused))
    for label, nodes in {"x": {"a", "b"}, "v": {"c", "d"}}.items():
        assert set(lines(drawings[label], 1)) == {*nodes, "fused"}
        assert len(lines(drawings[label], 1)["fused"]) == 1
    assert "2 parts that share no class" in fusion_html(fused.report, snapshots, fused)


def test_clusters_are_named_and_drawn_apart(report: FusionReport) -> None:
    alike = (ClusterReport(("bath", "leeds"), ()), ClusterReport(("york",), ("worn", EVIL)))
    apart = replace(report, components=(("bath", "leeds"), ("york",)), clusters=alike)
    words = " ".join(read(fusion_html(apart, fleet())).words)
    assert "clusters that decide classes differently" in words
    assert "bath and leeds are alike" in words
    assert f"york decide the classes worn and {EVIL} differently" in words
    assert "parts that share no class" not in words
    assert "Nodes that are alike" not in " ".join(read(fusion_html(report, fleet())).words)


def test_features_are_drawn_in_the_order_of_their_numbers(report: FusionReport) -> None:
    names = [f"band {k}" for k in range(120)]
    assert natural(sorted(names)) == tuple(names)
    assert natural(["a1b2", "a1", "", "7", "a1b10"]) == ("", "7", "a1", "a1b2", "a1b10")
    assert fusion_html(replace(report, features=FEATURES[::-1]), fleet()) == fusion_html(
        report, fleet()
    )


# --- tables --------------------------------------------------------------------------------------


def test_rows_say_what_became_of_each_node(report: FusionReport) -> None:
    report = changed(report, "leeds", left_out="it lies", weights={})
    report = changed(report, "bath", clipped=(Clipping("metric_cut"),))
    head, *rows = node_rows(report)
    by_node = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    assert by_node["york"]["gained"] == "worn"
    assert by_node["york"]["off by"] == "2.29"
    assert by_node["leeds"]["remarks"] == "left out"
    assert by_node["leeds"]["weight"] == "0.0 %"
    assert by_node["bath"]["remarks"] == "clipped"
    assert unprotected_note(report) == (
        "too few nodes to tell a mistake from the truth about worn; only 'bath' claims worn"
    )
    assert unprotected_note(replace(report, unprotected=())) == ""
    words = " ".join(read(fusion_html(report)).words)
    assert words.count("node 'bath': a metric that is larger than all others was cut") == 1
    assert len(node_notes(report)) == 1
    assert "part" not in head
    apart = replace(report, components=(("bath", "leeds"), ("york",)))
    assert "part" in node_rows(apart)[0]


# --- pools ---------------------------------------------------------------------------------------


def pools() -> dict[str, PoolReport]:
    weights = {"fused none": 0.5, "personal none": 1.0, "local": 0.5, "unseen": 0.75}
    losses = {"local": 0.531, "pool": 0.128, "all candidates": 0.12}
    alone = {"local": 1.0, "unseen": 0.0}
    return {
        "bath": PoolReport("bath", 42, weights, ("ensemble none",), losses),
        "leeds": PoolReport("leeds", 0, {**alone, "fused none": 0.25}, (), {}),
        EVIL: PoolReport(EVIL, 0, alone, (), {}, left_out=True),
    }


def test_pools_are_drawn_with_weights_losses_and_what_was_dropped(report: FusionReport) -> None:
    assert "Who is weighed how" not in fusion_html(report)
    reader = read(fusion_html(report, pools=pools()))
    words = " ".join(reader.words)
    for wanted in ("Who is weighed how", "fused none", "0.531", "0.128", "ensemble none", "42",
                   "nothing to judge by", "left out: its own model alone"):  # fmt: skip
        assert wanted in words
    assert "script" not in reader.tags
    assert any(EVIL in word for word in reader.words)


def test_bars_of_pools_are_as_long_as_their_weights() -> None:
    drawing = ElementTree.fromstring(pool_drawing(pools()))
    bars = [(bar.find("title"), float(bar.get("width", "0"))) for bar in drawing.iter("rect")]
    lengths = {str(title.text): width for title, width in bars if title is not None}
    assert len(lengths) == 3 + 2 + 1
    unit = lengths["bath: personal none 1.00"]
    assert lengths["bath: local 0.50"] == pytest.approx(0.5 * unit, abs=0.1)
    assert lengths["leeds: fused none 0.25"] == pytest.approx(0.25 * unit, abs=0.1)
    right = max(float(b.get("x", "0")) + float(b.get("width", "0")) for b in drawing.iter("rect"))
    assert right <= DRAWING_WIDTH
