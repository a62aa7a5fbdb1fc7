"""YAML text as a tree of nodes that know their lines.

The text is not trusted, so what makes YAML dangerous is refused: tags (they can build objects),
aliases (a few lines can expand to gigabytes), deep nesting and large files.
"""

from __future__ import annotations

import functools
from typing import Any

from streamlvq.config.problems import ConfigError, Problem

MAX_BYTES = 1 << 20
MAX_DEPTH = 32


class _RefusedError(Exception):
    """A feature of YAML that configurations may not use."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def compose(text: str, name: str) -> Any:
    """Return the root node of a YAML text, None if it is empty; raise `ConfigError`."""
    import yaml  # noqa: PLC0415

    if len(text) > MAX_BYTES:
        raise _error(f"expected a configuration of at most 1 MiB, got {len(text)} characters", name)
    loader = None
    try:
        loader = _loader()(text)
        return loader.get_single_node()
    except _RefusedError as error:
        raise _error(str(error), name, error.line) from None
    except yaml.MarkedYAMLError as error:
        raise _error(*_parser_message(error, name)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"expected text, got the character {chr(error.character)!r}"
        raise _error(message, name, line) from None
    except (ValueError, OverflowError) as error:  # escapes that stand for no character
        reached = None if loader is None else loader.line + 1
        raise _error(f"not valid YAML: {error}", name, reached) from None
    finally:
        if loader is not None:
            loader.dispose()


def _error(message: str, name: str, line: int | None = None) -> ConfigError:
    return ConfigError([Problem((), message, line)], name)


def _parser_message(error: Any, name: str) -> tuple[str, str, int | None]:
    """Return the parser's message without its excerpt of the file, which may hold secrets."""
    mark = error.problem_mark or error.context_mark
    message = ", ".join(part for part in (error.context, error.problem) if part)
    hint = ""
    if "'\\t'" in message:
        hint = "; indent with spaces, not with tabs"
    elif "mapping values are not allowed" in message:
        hint = "; is the indentation right? A text that holds ': ' needs quotes"
    elif "single document" in message:
        hint = "; leave out what follows the line '---'"
    return f"not valid YAML: {message}{hint}", name, None if mark is None else mark.line + 1


@functools.cache
def _loader() -> Any:
    import yaml  # noqa: PLC0415

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """A loader that composes nodes and refuses what configurations may not use."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()
            line = event.start_mark.line + 1
            if isinstance(event, yaml.AliasEvent):
                raise _RefusedError(f"expected a value, got the alias *{event.anchor}", line)
            if getattr(event, "tag", None) is not None:
                raise _RefusedError(
                    f"expected a plain value, got the tag {event.tag!r}; a text goes in quotes",
                    line,
                )
            if self.depth >= MAX_DEPTH:
                raise _RefusedError(f"expected at most {MAX_DEPTH} levels of nesting", line)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Loader
