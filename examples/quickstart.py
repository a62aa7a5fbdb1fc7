"""Learn a stream of image patches one by one, and look inside the model.

River's ImageSegments has 2310 patches of outdoor photographs, described by 18 numbers each; the
model says whether a patch shows sky, grass, brick and so on. Each patch is predicted first and
learnt afterwards, so the accuracy printed is that of a model at work.
"""

from __future__ import annotations

from river import datasets, metrics

import streamlvq


def main() -> None:
    model = streamlvq.LGMLVQ()
    accuracy = metrics.Accuracy()
    print("Learning 2310 image patches one by one (the very first run compiles, once) ...")
    for x, y in datasets.ImageSegments():
        accuracy.update(y, model.predict_one(x))
        model.learn_one(x, y)

    print(f"\nShare recognised before they were learnt: {accuracy.get():.3f}")

    print("\nWhy the last patch gets its label (positive: speaks for it):")
    print(model.explain_one(x))

    print("\nFeatures that count most:")
    ranked = sorted(model.relevances().items(), key=lambda item: -item[1])
    for name, share in ranked[:5]:
        print(f"  {name:>20} {share:6.1%}")

    print(f"\nWhat the model keeps: {len(model.prototypes())} typical patches.")
    print('Next: pip install ".[plot]" && python examples/explain.py draws a model like this one.')


if __name__ == "__main__":
    main()
