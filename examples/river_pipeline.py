"""A streamlvq model in River pipelines and evaluation.

Three pipelines see the same stream: River's scaled logistic regression, one for each class; a model
of ours, which needs no scaler; and the same model on colours only, chosen by `compose.Select`.
"""

from __future__ import annotations

import time
from typing import Any

from river import compose, datasets, evaluate, linear_model, metrics, multiclass, preprocessing

import streamlvq

COLOURS = (
    "rawred-mean",
    "rawgreen-mean",
    "rawblue-mean",
    "exred-mean",
    "exgreen-mean",
    "exblue-mean",
    "hue-mean",
    "saturation-mean",
    "value-mean",
)


def pipelines() -> dict[str, Any]:
    logistic = multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    return {
        "StandardScaler | logistic regression": preprocessing.StandardScaler() | logistic,
        "LGMLVQ": streamlvq.LGMLVQ(),
        "Select(colours) | LGMLVQ": compose.Select(*COLOURS) | streamlvq.LGMLVQ(),
        "StandardScaler | GLVQ(rehearsal=0)": (
            preprocessing.StandardScaler() | streamlvq.GLVQ(rehearsal=0, standardize=False)
        ),
        "GLVQ(rehearsal=0)": streamlvq.GLVQ(rehearsal=0),
    }


def compile_kernels() -> None:
    """Load the compiled kernels before the clock starts."""
    model = streamlvq.GLVQ()
    model.learn_one({"a": 0.0}, "warm")
    model.predict_one({"a": 0.0})


def main() -> None:
    compile_kernels()
    stream = list(datasets.ImageSegments())
    print(f"{'pipeline':<38} {'accuracy':>8} {'CPU us per sample':>18}")
    for name, model in pipelines().items():
        start = time.process_time()
        accuracy = evaluate.progressive_val_score(stream, model, metrics.Accuracy())
        spent = (time.process_time() - start) / len(stream)
        print(f"{name:<38} {accuracy.get():8.3f} {spent * 1e6:18.0f}")
    print("\nThe time includes River's evaluation loop, about the same for all.")


if __name__ == "__main__":
    main()
