"""What the system asks for: to leave (SIGTERM, SIGINT), or to read the configuration again."""

from __future__ import annotations

import logging
import signal
from types import FrameType, TracebackType
from typing import Any

log = logging.getLogger(__name__)

LEAVE = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Remembers what was asked, for the loop to see when it comes round; nothing is interrupted.

    Who asks to leave a second time does not want to wait: from then on the signal has its usual
    effect. Nothing that was acknowledged is lost even so.
    """

    def __init__(self) -> None:
        self.leave = False
        self.reload = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        for number in LEAVE:
            self._before[number] = signal.signal(number, self._leave)
        self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._reload)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        self.leave = True
        for again in LEAVE:
            signal.signal(again, signal.SIG_DFL)

    def _reload(self, number: int, frame: FrameType | None) -> None:
        self.reload = True


__all__ = ["Signals"]
