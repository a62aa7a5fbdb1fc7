"""What a demo came to."""

from __future__ import annotations

from pathlib import Path

from streamlvq.demo.fleet_setup import FOLDER
from streamlvq.demo.watch import Watch

WHY = (  # what most people ask first
    "    15 to 30 % is normal here: the threshold is strict, so that a fault nobody has labelled",
    "    yet is refused, and so is much that lies between two states, above all while they change",
)


def summary(watch: Watch, cpu_share: float | None) -> str:
    """The lines at the end of the first act.

    Parameters
    ----------
    watch
        All that was seen.
    cpu_share
        Of the daemon, of one core; None if it is not known.

    """
    if watch.began is None:
        return "\nStopped before the machines were switched on: there is nothing to tell yet."
    lines = ["", f"After {watch.seconds:.0f} s", *_figures(watch)]
    if cpu_share is not None:
        lines.append(f"  the daemon used         {cpu_share:.1%} of a processor core")
    lines += [f"  {episode.words()}" for episode in watch.episodes]
    return "\n".join(lines)


def _figures(watch: Watch) -> list[str]:
    lines = [
        f"  readings decided        {watch.decided}",
        f"  labels learnt           {watch.version}",
    ]
    if watch.accuracy is not None and watch.reject_rate is not None:
        reasons = ", ".join(f"{name} {count}" for name, count in sorted(watch.reasons.items()))
        lines += [
            f"  accepted and right      {watch.accuracy:.2%} ({watch.right} of {watch.accepted})",
            f"  rejected                {watch.reject_rate:.1%} ({reasons or 'none'})",
            *WHY,
        ]
    return lines


def next_steps(folder: Path | None, fleet: bool) -> str:
    """What somebody can do now.

    Parameters
    ----------
    folder
        Where everything was kept; None if nothing was.
    fleet
        Whether there was one.

    """
    lines = ["", "Where to look next"]
    if folder is None:
        lines.append(
            "  streamlvq demo --keep FOLDER            keeps configuration, logs, decisions"
        )
    else:
        lines += _kept(folder)
    if not fleet:
        lines.append("  streamlvq demo --act 2                  nodes that learn from each other")
    return "\n".join(
        [
            *lines,
            "  streamlvq config sample > monitor.yaml  a configuration for your own broker",
            "  streamlvq run monitor.yaml              the daemon that you have just seen",
        ]
    )


def _kept(folder: Path) -> list[str]:
    lines = []
    if (folder / "monitor.yaml").exists():
        lines += [
            f"  {folder / 'monitor.yaml'}   the configuration that the daemon ran with",
            f"  streamlvq inspect {folder / 'state'}   what the model has learnt",
        ]
    if (folder / FOLDER).exists():
        lines.append(f"  {folder / FOLDER}   the nodes of the fleet: keys, configurations, state")
    return lines
