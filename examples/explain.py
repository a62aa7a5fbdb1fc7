"""What a model has learnt: an explanation in words and three plots.

Learns River's ImageSegments once, explains its decision about a few patches, and saves the pictures
of `streamlvq.plot`: the decision regions, the relevances and the prototypes. Pictures need
matplotlib: `pip install ".[plot]"`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from river import datasets

import streamlvq
from streamlvq import plot

HERE = Path(__file__).parent
os.environ["MPLBACKEND"] = "Agg"  # matplotlib writes files and opens no window


def learnt(X: list[dict[str, float]], y: list[str]) -> streamlvq.GMLVQ:
    """Train a GMLVQ, whose one shared metric can be drawn faithfully in a plane."""
    model = streamlvq.GMLVQ(max_prototypes_per_class=3)
    right = 0
    for x, label in zip(X, y, strict=True):
        right += model.predict_one(x) == label
        model.learn_one(x, label)
    print(f"Learnt {len(X)} image patches, accuracy before learning each: {right / len(X):.3f}\n")
    return model


def explain(model: streamlvq.GMLVQ, X: list[dict[str, float]], y: list[str]) -> None:
    """Explain the last patch of each of three classes."""
    for wanted in ("sky", "cement", "window"):
        x = next(x for x, label in zip(reversed(X), reversed(y), strict=True) if label == wanted)
        print(f"A patch of {wanted} is called {model.explain_one(x)}\n")


def draw(model: streamlvq.GMLVQ, X: list[dict[str, float]], y: list[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, axes in {
        "projection": plot.projection(model, X, y),
        "relevances": plot.relevance_profile(model, top=12),
        "prototypes": plot.prototype_profiles(model, scaled=True),
    }.items():
        path = folder / f"{name}.png"
        axes.figure.savefig(path, dpi=90, pil_kwargs={"optimize": True})
        print(f"Saved {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=HERE / "out", help="for pictures")
    folder = parser.parse_args().folder
    X, y = map(list, zip(*datasets.ImageSegments(), strict=True))
    model = learnt(X, y)
    explain(model, X, y)
    draw(model, X, y, folder)


if __name__ == "__main__":
    main()
