"""From arguments to an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from streamlvq.cli.parser import chosen_command, make_parser, unknown_command
from streamlvq.errors import StreamLVQError

FAILED, INTERRUPTED, BROKEN_PIPE = 2, 130, 141  # the last two are 128 + the number of the signal
DEBUG_VARIABLE = "STREAMLVQ_DEBUG"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status.

    0 means success, 2 an error that the user can put right: one line on standard error says what it
    is. Its traceback is shown only with `--debug` or if `STREAMLVQ_DEBUG` is set.

    Examples
    --------

    >>> from streamlvq.cli import main
    >>> main(["version", "--short"])
    0.1.0
    0

    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if message := unknown_command(arguments):
        return _fail(message)
    try:
        return _run(arguments)
    except BrokenPipeError:
        # Whoever read our output has stopped; exiting must not try to write the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        print(file=sys.stderr)  # ends the line that shows ^C
        return INTERRUPTED
    except (StreamLVQError, OSError) as error:
        if "--debug" in arguments or os.environ.get(DEBUG_VARIABLE):
            raise
        return _fail(_message(error))


def _run(arguments: Sequence[str]) -> int:
    parser = make_parser(chosen_command(arguments))
    options = parser.parse_args(arguments)
    if options.run is None:
        parser.print_help()
        return 0
    status: int = options.run(options)
    sys.stdout.flush()  # a closed pipe is noticed here rather than at exit
    return status


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _fail(message: str) -> int:
    print(f"streamlvq: error: {message}", file=sys.stderr)
    return FAILED
