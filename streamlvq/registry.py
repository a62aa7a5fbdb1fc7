"""Registries of exchangeable parts, which are imported on first use.

A new part is one class in its own file and one line here. The configuration schema, the command
line and the documentation read names and summaries from here without importing the parts.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar, cast

from streamlvq.errors import StreamLVQError
from streamlvq.text import nearest

T = TypeVar("T")


class UnknownNameError(StreamLVQError, LookupError):
    """A name that is not in a registry.

    Attributes
    ----------
    kind, name, known
        What was looked up, the name, and the names that there are.
    nearest
        The known name that resembles it most; None if none does.
    """

    def __init__(self, kind: str, name: object, known: tuple[str, ...]) -> None:
        self.kind, self.name, self.known = kind, name, known
        self.nearest = nearest(name, known) if isinstance(name, str) else None
        hint = "" if self.nearest is None else f"; did you mean {self.nearest!r}?"
        super().__init__(f"{kind}: expected one of {', '.join(known)}, got {name!r}{hint}")


class DuplicateNameError(StreamLVQError, ValueError):
    """A name that is already registered."""


class Registry(Generic[T]):
    """Ordered collection of named parts that are imported on first use.

    Parameters
    ----------
    kind
        What the parts are, in a word or two; error messages begin with it.
    entries
        By name: where a part is ("package.module:attribute"), and a summary of a few words.

    Examples
    --------

    >>> from streamlvq.registry import Registry

    >>> roots = Registry("root", {"square": ("math:sqrt", "the square root")})
    >>> roots["square"](9.0)
    3.0
    >>> roots.register("cube", "math:cbrt", "the cube root")
    >>> list(roots), roots.summary("cube")
    (['square', 'cube'], 'the cube root')
    >>> roots["cubes"]
    Traceback (most recent call last):
    ...
    streamlvq.registry.UnknownNameError: root: expected one of square, cube, got 'cubes'; did you...

    """

    def __init__(self, kind: str, entries: Mapping[str, tuple[str, str]] | None = None) -> None:
        self.kind = kind
        self._targets: dict[str, str] = {}
        self._summaries: dict[str, str] = {}
        self._parts: dict[str, T] = {}
        for name, (target, summary) in (entries or {}).items():
            self.register(name, target, summary)

    def register(self, name: str, part: str | T, summary: str) -> None:
        """Add a part at the end.

        Parameters
        ----------
        name
            Name to look it up by.
        part
            The part itself, or where it is: "package.module:attribute".
        summary
            A few words for lists and help texts.

        """
        if name in self._summaries:
            raise DuplicateNameError(f"{self.kind}: expected a new name, got {name!r} once more")
        if isinstance(part, str):
            module, colon, attribute = part.partition(":")
            if not (module and colon and attribute):
                raise ValueError(
                    f"{self.kind} {name!r}: expected 'package.module:attribute', got {part!r}"
                )
            self._targets[name] = part
        else:
            self._parts[name] = part
        self._summaries[name] = summary

    def remove(self, name: str) -> None:
        """Remove a part, such as one that a test has registered."""
        self.check(name)
        del self._summaries[name]
        self._targets.pop(name, None)
        self._parts.pop(name, None)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order of their registration."""
        return tuple(self._summaries)

    def check(self, name: object) -> None:
        """Raise `UnknownNameError` unless there is a part with this name."""
        if not isinstance(name, str) or name not in self._summaries:
            raise UnknownNameError(self.kind, name, self.names)

    def summary(self, name: str) -> str:
        """Return the summary of a part, without importing it."""
        self.check(name)
        return self._summaries[name]

    def described(self) -> str:
        """Return all names with their summaries, as a list in a sentence.

        Examples
        --------
        >>> Registry("root", {"square": ("math:sqrt", "the square root")}).described()
        'square (the square root)'

        """
        return ", ".join(f"{name} ({summary})" for name, summary in self._summaries.items())

    def __getitem__(self, name: str) -> T:
        self.check(name)
        if name not in self._parts:
            module, _, attribute = self._targets[name].partition(":")
            self._parts[name] = cast(T, getattr(importlib.import_module(module), attribute))
        return self._parts[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._summaries

    def __iter__(self) -> Iterator[str]:
        return iter(self._summaries)

    def __len__(self) -> int:
        return len(self._summaries)

    def __repr__(self) -> str:
        return f"Registry({self.kind!r}, {list(self)})"


# How the sensors of nodes differ, from simple to complicated: classes with the methods of
# `streamlvq.fusion.corrections.Correction`. `drift="auto"` tries them in this order.
CORRECTIONS: Registry[Any] = Registry(
    "drift",
    {
        "none": ("streamlvq.fusion.corrections:NoCorrection", "no correction"),
        "tree": ("streamlvq.fusion.corrections:TreeShift", "a shift along a spanning tree"),
        "least_squares": (
            "streamlvq.fusion.corrections:LeastSquaresShift",
            "a shift by least squares",
        ),
        "scale_shift": ("streamlvq.fusion.corrections:ScaleShift", "a gain and a shift"),
        "published": (
            "streamlvq.fusion.corrections:PublishedShift",
            "a shift along a spanning tree, all shared classes alike",
        ),
    },
)

# What a pool may weigh beside the local model of a node: classes with the methods of
# `streamlvq.fusion.candidates.Candidate`.
CANDIDATES: Registry[Any] = Registry(
    "candidate",
    {
        "fused": ("streamlvq.fusion.candidates:FusedModel", "the fused model"),
        "ensemble": (
            "streamlvq.fusion.candidates:EnsembleOfNodes",
            "the mean opinion of all nodes' models",
        ),
        "personal": (
            "streamlvq.fusion.candidates:PersonalModel",
            "the fused model after a pass over the node's own readings",
        ),
        "round": (
            "streamlvq.fusion.candidates:RoundModel",
            "the fused model after a round of federated averaging",
        ),
        "rounds": (
            "streamlvq.fusion.candidates:SeveralRoundsModel",
            "the fused model after five rounds of federated averaging",
        ),
        "network": (
            "streamlvq.fusion.candidates:NetworkModel",
            "the node's own model, drawn to those of alike nodes",
        ),
        "transformed": (
            "streamlvq.fusion.candidates:TransformedModel",
            "the fused model of nodes that learnt through a logarithm",
        ),
    },
)

# How the values of many nodes become one: classes with the methods of
# `streamlvq.fusion.aggregators.Aggregator`.
AGGREGATORS: Registry[Any] = Registry(
    "aggregator",
    {
        "mean": ("streamlvq.fusion.aggregators:Mean", "weighted mean"),
        "median": ("streamlvq.fusion.aggregators:Median", "robust: median of each coordinate"),
        "trimmed_mean": (
            "streamlvq.fusion.aggregators:TrimmedMean",
            "robust: mean without the outer quarters",
        ),
        "geometric_median": (
            "streamlvq.fusion.aggregators:GeometricMedian",
            "robust: point closest to all together",
        ),
    },
)

# Models, in the order in which they are listed to people.
MODELS: Registry[Any] = Registry(
    "model",
    {
        "GLVQ": ("streamlvq.models:GLVQ", "generalized LVQ"),
        "GMLVQ": ("streamlvq.models:GMLVQ", "GLVQ with one matrix for all prototypes"),
        "GRLVQ": ("streamlvq.models:GRLVQ", "GLVQ with a relevance for each feature"),
        "LGMLVQ": ("streamlvq.models:LGMLVQ", "GMLVQ with a matrix for each prototype"),
        "LGRLVQ": ("streamlvq.models:LGRLVQ", "GRLVQ with relevances for each prototype"),
        "LMRSLVQ": ("streamlvq.models:LMRSLVQ", "MRSLVQ with a matrix for each prototype"),
        "LVQ1": ("streamlvq.models:LVQ1", "Kohonen's LVQ: the closest prototype learns"),
        "LVQ3": ("streamlvq.models:LVQ3", "LVQ2.1 that also attracts two prototypes of one class"),
        "LVQ21": ("streamlvq.models:LVQ21", "LVQ2.1: the two closest prototypes learn"),
        "MRSLVQ": ("streamlvq.models:MRSLVQ", "RSLVQ with one matrix for all prototypes"),
        "OLVQ1": ("streamlvq.models:OLVQ1", "LVQ1 with a learning rate for each prototype"),
        "RSLVQ": ("streamlvq.models:RSLVQ", "robust soft LVQ"),
        "BinnedNaiveBayes": ("streamlvq.models:BinnedNaiveBayes", "class frequencies in bins"),
        "LVQCommittee": (
            "streamlvq.models:LVQCommittee",
            "models with and without prototypes, combined",
        ),
        "PairwiseLVQ": ("streamlvq.models:PairwiseLVQ", "a GMLVQ for each pair of classes"),
        "WindowForest": ("streamlvq.models:WindowForest", "randomised trees on recent samples"),
    },
)

# Payload formats: functions that return a `streamlvq.payloads.reader.Reader` for a section of the
# configuration that says where the fields are.
FORMATS: Registry[Any] = Registry(
    "format",
    {
        "json": ("streamlvq.payloads.formats:json_reader", "an object"),
        "json_array": (
            "streamlvq.payloads.formats:json_array_reader",
            "an array of numbers, named by columns",
        ),
        "msgpack": ("streamlvq.payloads.formats:msgpack_reader", "a map"),
        "float32": (
            "streamlvq.payloads.formats:float32_reader",
            "raw little-endian numbers, named by columns",
        ),
    },
)

# Members that a committee knows by name: functions of `absent` (what a feature means that a reading
# does not mention) that return an untrained `streamlvq.models.committee.CommitteeMember`.
MEMBERS: Registry[Any] = Registry(
    "member",
    {
        "learner": ("streamlvq.models.committee:default_learner", "learns metrics"),
        "follower": ("streamlvq.models.committee:default_follower", "keeps up with change"),
        "forest": ("streamlvq.models:WindowForest", "rules on recent samples"),
        "bins": ("streamlvq.models:BinnedNaiveBayes", "many noisy features, each on its own"),
        "pairs": ("streamlvq.models:PairwiseLVQ", "tells each pair of classes apart"),
    },
)

# What an audit tries on publications: classes derived from `streamlvq.audit.attack.Attack`.
ATTACKS: Registry[Any] = Registry(
    "attack",
    {
        "stored": ("streamlvq.audit.class_statistics:ReadingsInFile", "readings kept in the file"),
        "counts-and-means": (
            "streamlvq.audit.class_statistics:CountsAndMeans",
            "one new reading of a class, from its mean",
        ),
        "pair-from-spread": (
            "streamlvq.audit.class_statistics:PairFromSpread",
            "two new readings of a class, from mean and spread",
        ),
        "feature-means": (
            "streamlvq.audit.class_statistics:FeatureMeans",
            "one new reading, from the means of features",
        ),
        "nearest-to-born": (
            "streamlvq.audit.births:NearestToBorn",
            "readings that prototypes were born on",
        ),
        "gradient-lines": (
            "streamlvq.audit.updates:GradientLines",
            "where the lines of two prototypes meet",
        ),
        "metric-change": (
            "streamlvq.audit.updates:MetricChange",
            "the change of low rank that a reading makes",
        ),
        "sign-of-beta": (
            "streamlvq.audit.updates:SignOfBeta",
            "class and rule, from who was attracted",
        ),
        "membership": (
            "streamlvq.audit.membership:LikelihoodRatio",
            "who took part, by likelihood ratio",
        ),
        "two-worlds": (
            "streamlvq.audit.mechanism:TwoWorlds",
            "a private mechanism with and without one reading",
        ),
        "known-others": (
            "streamlvq.audit.mechanism:KnownOthers",
            "the one unknown reading, from private releases",
        ),
        "one-run": (
            "streamlvq.audit.mechanism:OneRun",
            "many canaries in one run of a private mechanism",
        ),
        "noise-scale": (
            "streamlvq.audit.mechanism:NoiseScale",
            "whether private noise is as large as promised",
        ),
    },
)
