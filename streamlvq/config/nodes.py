"""YAML text as a tree of nodes that know their lines.

The text may come from anywhere, so what makes YAML dangerous is refused: tags (they can build
objects), aliases (a few lines of them can stand for gigabytes), deep nesting, large files.
"""

from __future__ import annotations

import functools
from typing import Any

from streamlvq.config.problems import ConfigError, Problem

MAX_BYTES = 1 << 20
MAX_DEPTH = 32


class _RefusedError(Exception):
    """Something that YAML allows and we do not."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def compose(text: str, name: str) -> Any:
    """The root node of a YAML text, None if it holds nothing; raises `ConfigError`."""
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
        raise _error(*_said(error, name)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"expected text, got the character {chr(error.character)!r}"
        raise _error(message, name, line) from None
    except (ValueError, OverflowError) as error:  # escapes that are no characters
        reached = None if loader is None else loader.line + 1
        raise _error(f"this is no YAML: {error}", name, reached) from None
    finally:
        if loader is not None:
            loader.dispose()


def _error(message: str, name: str, line: int | None = None) -> ConfigError:
    return ConfigError([Problem((), message, line)], name)


def _said(error: Any, name: str) -> tuple[str, str, int | None]:
    """What YAML's parser has to say, without the piece of the file, which may hold secrets."""
    mark = error.problem_mark or error.context_mark
    said = ", ".join(part for part in (error.context, error.problem) if part)
    hint = ""
    if "'\\t'" in said:
        hint = "; indent with spaces, not with tabs"
    elif "mapping values are not allowed" in said:
        hint = "; is the indentation right? A text that holds ': ' needs quotes"
    elif "single document" in said:
        hint = "; leave out what follows the line '---'"
    return f"this is no YAML: {said}{hint}", name, None if mark is None else mark.line + 1


@functools.cache
def _loader() -> Any:
    import yaml  # noqa: PLC0415

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Composes nodes, and refuses what a configuration has no need for."""

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
