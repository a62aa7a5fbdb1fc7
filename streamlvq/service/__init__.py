"""Service: runs a monitor, or the hub of a fleet, between a broker and a state folder."""

from __future__ import annotations

from pathlib import Path


def run(config_path: Path | str, *, test: bool = False, test_wait: float | None = None) -> int:
    """Run until asked to stop; return the exit status of the process.

    Parameters
    ----------
    config_path
        The YAML file that says what to do; SIGHUP reads it again.
    test
        Instead: connect beside the daemon, show what comes and what the newest snapshot would
        decide, publish and learn nothing.
    test_wait
        How many seconds to look, with `test`.
    """
    if test:
        from streamlvq.service.probe import probe  # noqa: PLC0415

        return probe(Path(config_path), 10.0 if test_wait is None else test_wait)
    from streamlvq.service.daemon import make_role  # noqa: PLC0415
    from streamlvq.service.service import run_service  # noqa: PLC0415

    return run_service(Path(config_path), make_role)


__all__ = ["run"]
