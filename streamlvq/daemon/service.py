"""The daemon as a process: its configuration, its signals, and how it ends."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from streamlvq.config import ConfigError, load
from streamlvq.daemon.daemon import Daemon
from streamlvq.daemon.hub import Hub
from streamlvq.daemon.logs import set_up, settle
from streamlvq.daemon.signals import Signals
from streamlvq.errors import StreamLVQError

log = logging.getLogger(__name__)

WRONG_CONFIG = 2  # as for wrong arguments: starting again will not help


def serve(path: Path) -> int:
    """Run until told to leave; 0 if all was kept."""
    try:
        config = load(path)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG_CONFIG
    set_up(config.logging)
    with Signals() as signals:
        try:
            is_hub = config.fleet is not None and config.fleet.role == "hub"
            process = Hub if is_hub else Daemon
            return process(config, signals, lambda: load(path)).run()
        except (StreamLVQError, OSError) as error:  # files that are missing, above all
            log.error("%s", error)
            return 1
        except Exception:
            log.critical("a defect of streamlvq, please report it", exc_info=True)
            return 70  # what sysexits.h calls an internal error; a service manager starts again
        finally:
            settle()


__all__ = ["serve"]
