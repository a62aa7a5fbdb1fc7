"""Closing text of a demo: what was seen, and what to do next."""

from __future__ import annotations

from pathlib import Path

from streamlvq.demo.processes import CONFIG_FILE, FLEET_FOLDER, STATE_FOLDER
from streamlvq.demo.tracker import FleetTracker, PlantTracker, Tally, TrackedNode
from streamlvq.text import wrapped

REJECTION_NOTE = (  # what most people ask first
    "    a full run rejects 15 to 30 %, a short one often more, as it has learnt",
    "    little: the threshold is strict, so that a fault nobody has labelled yet is",
    "    refused, and so is much that lies between two states, above all while they",
    "    change",
)
FLEET_HEADING = f"  {'node':<8}{'labels':>8}   {'decided alone':<22}{'together':<22}{'points':>8}"


def plant_summary(tracker: PlantTracker, cpu_share: float | None) -> str:
    """Return the lines at the end of the first act.

    Parameters
    ----------
    tracker
        What was seen.
    cpu_share
        Share of one core that the daemon used; None if it is not known.

    """
    if tracker.began is None:
        return "\nStopped before the machines were switched on: there is nothing to tell yet."
    lines = ["", f"After {tracker.seconds:.0f} s", *_plant_figures(tracker)]
    if cpu_share is not None:
        lines.append(f"  the daemon used         {cpu_share:.1%} of a processor core")
    lines += [f"  {episode.describe()}" for episode in tracker.episodes]
    return "\n".join(map(wrapped, lines))


def _plant_figures(tracker: PlantTracker) -> list[str]:
    lines = [
        f"  readings decided        {tracker.decided}",
        f"  labels learnt           {tracker.version}",
    ]
    if tracker.accuracy is not None and tracker.reject_rate is not None:
        reasons = ", ".join(f"{name} {count}" for name, count in sorted(tracker.reasons.items()))
        correct = f"{tracker.correct} of {tracker.accepted}"
        lines += [
            f"  accepted and right      {tracker.accuracy:.2%} ({correct})",
            f"  rejected                {tracker.reject_rate:.1%} ({reasons or 'none'})",
            *REJECTION_NOTE,
        ]
    return lines


def fleet_summary(tracker: FleetTracker) -> str:
    """Return the lines at the end of the second act: own models against those of the fleet."""
    if tracker.began is None:
        return "\nThe fleet was stopped before its presses were switched on."
    title = f"The fleet, after {tracker.seconds:.0f} s: the same readings, decided twice"
    lines = ["", title, FLEET_HEADING]
    lines += [_fleet_row(name, node) for name, node in tracker.nodes.items()]
    for name, node in tracker.nodes.items():
        if node.unseen_state is not None:
            what = f"{node.unseen_state} on {name}, never labelled there"
            lines.append(f"  {what}: {node.describe_unseen()}")
    return "\n".join(map(wrapped, [*lines, *_fusion_figures(tracker)]))


def _fleet_row(name: str, node: TrackedNode) -> str:
    alone, together = node.alone.accuracy, node.together.accuracy
    points = "-" if alone is None or together is None else f"{100 * (together - alone):+.1f}"
    figures = f"{_accuracy(node.alone):<22}{_accuracy(node.together):<22}{points:>8}"
    return f"  {name:<8}{node.labels:>8}   {figures}"


def _accuracy(tally: Tally) -> str:
    if tally.accuracy is None:
        return "-"
    return f"{tally.accuracy:.1%} ({tally.correct} of {tally.decided})"


def _fusion_figures(tracker: FleetTracker) -> list[str]:
    report = tracker.insight.report
    if report is None:
        return ["  nothing was fused: too few nodes had joined"]
    lines = [f"  correction between the sensors: {report.why}"]
    first = next(iter(tracker.nodes))
    for name in tracker.nodes:
        shifts = tracker.insight.shifts(name)
        if shifts:
            lines.append(f"  {name} against {first} (in truth): {', '.join(map(str, shifts))}")
    return [*lines, *(f"  warning: {text}" for text in report.warnings)]


def next_steps(folder: Path | None, fleet: bool) -> str:
    """Return what the user can do now.

    Parameters
    ----------
    folder
        Where everything was kept; None if nothing was.
    fleet
        Whether the second act was played.

    """
    lines = ["", "Where to look next"]
    if folder is None:
        lines.append(
            "  streamlvq demo --keep FOLDER            keeps configuration, logs, decisions"
        )
    else:
        lines += _kept_files(folder)
    if not fleet:
        lines.append("  streamlvq demo --act 2                  nodes that learn from each other")
    return "\n".join(
        [
            *lines,
            "  streamlvq config sample > monitor.yaml  a configuration for your own broker",
            "  streamlvq run monitor.yaml              the daemon that you have just seen",
        ]
    )


def _kept_files(folder: Path) -> list[str]:
    lines = []
    if (folder / CONFIG_FILE).exists():
        lines += [
            f"  {folder / CONFIG_FILE}   the configuration that the daemon ran with",
            f"  streamlvq inspect {folder / STATE_FOLDER}   what the model has learnt",
        ]
    if (folder / FLEET_FOLDER).exists():
        what = "the nodes of the fleet: keys, configurations, state"
        lines.append(f"  {folder / FLEET_FOLDER}   {what}")
    return lines
