"""`streamlvq warm`: compile all kernels before they are needed."""

from __future__ import annotations

import argparse
import time

from streamlvq.errors import StreamLVQError

TEXT = """\
Compile all kernels and keep them, so that no process has to do so when it starts.

Otherwise the first process that needs a kernel compiles it, once for each installation and kind of
processor. Run this when an image is built or a package installed, with the NUMBA_CACHE_DIR of the
service: compiled kernels are kept there, or else in XDG_CACHE_HOME or ~/.cache. The folder may be
read-only afterwards."""
EXAMPLES = """\
examples:
  streamlvq warm             compile what is not compiled yet, and show how far it is
  streamlvq warm --quiet     in a Dockerfile or a package script"""


class CacheFolderError(StreamLVQError, OSError):
    """Folder in which compiled kernels cannot be kept."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="say nothing unless it fails")


def run(options: argparse.Namespace) -> int:
    from streamlvq.kernels.compile import (  # noqa: PLC0415  (numba takes a while)
        cache_error,
        cache_folder,
        compile_all,
    )
    from streamlvq.kernels.progress import progress  # noqa: PLC0415

    if (error := cache_error()) is not None:
        raise CacheFolderError(
            f"expected a folder that can be written (NUMBA_CACHE_DIR), got {error}"
        )
    progress.quiet = True
    start, count = time.monotonic(), 0
    for name, number, count in compile_all():
        if not options.quiet:
            print(f"{number:3} of {count}  {name}", flush=True)
    if not options.quiet:
        new, seconds = progress.done, time.monotonic() - start
        print(f"{count} kernels in {cache_folder()}, {new} compiled now in {seconds:.0f} s")
    return 0
