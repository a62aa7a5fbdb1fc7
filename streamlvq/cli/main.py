"""From arguments to an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from streamlvq.cli.parser import make_parser, suggestion
from streamlvq.errors import StreamLVQError

WRONG, INTERRUPTED, PIPE = 2, 130, 141  # the last two as a shell counts signals
DEBUG = "STREAMLVQ_DEBUG"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit status.

    0 means done, 2 that something the user can put right was wrong: one line on the standard error
    says what. Such an error shows its traceback only with `--debug` or if `STREAMLVQ_DEBUG` is set.

    Examples
    --------

    >>> from streamlvq.cli import main
    >>> main(["version", "--short"])
    0.1.0
    0

    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = make_parser()
    if hint := suggestion(arguments):
        return _say(hint)
    options = parser.parse_args(arguments)
    if options.run is None:
        parser.print_help()
        return 0
    return _guarded(options)


def _guarded(options: argparse.Namespace) -> int:
    """Run the command; errors that a user can cause become one line."""
    try:
        status: int = options.run(options)
        sys.stdout.flush()  # a closed pipe is noticed here rather than at exit
    except BrokenPipeError:
        # whoever read our output has seen enough; exiting must not try to write the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE
    except KeyboardInterrupt:
        print(file=sys.stderr)  # ends the line that shows ^C
        return INTERRUPTED
    except (StreamLVQError, OSError) as error:
        if options.debug or os.environ.get(DEBUG):
            raise
        return _say(_words(error))
    return status


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _say(text: str) -> int:
    print(f"streamlvq: error: {text}", file=sys.stderr)
    return WRONG
