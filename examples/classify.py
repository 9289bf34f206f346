"""Classification by `select`, calibrated: a model's liking for a label is not the text's doing.

    python examples/classify.py [--model FOLDER] [TEXT ...]

Each label's probability is divided by the one that it has for a text without content, and the
result scaled to sum to 1: contextual calibration (Zhao et al., "Calibrate Before Use", 2021).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import sgdsl as sgl
from sgdsl import ProgramState, Runtime

LABELS = ["positive", "negative", "neutral"]
WITHOUT_CONTENT = ["N/A", "[MASK]", "..."]
TEXTS = [
    "The soup was cold and the waiter was rude.",
    "What a wonderful evening, we will come back!",
    "The restaurant is on Main Street.",
]


@sgl.function
def classify(s: ProgramState, text: str) -> None:
    s += "Text: I have never slept better.\nSentiment: positive\n\n"
    s += "Text: It broke after a day.\nSentiment: negative\n\n"
    s += "Text: The parcel weighs two kilograms.\nSentiment: neutral\n\n"
    s += "Text: " + text + "\nSentiment: " + sgl.select("label", LABELS)


def probabilities(state: ProgramState) -> list[float]:
    found: list[float] = state.get_meta_info("label")["probabilities"]
    return found


def calibrated(found: Sequence[float], without_content: Sequence[Sequence[float]]) -> list[float]:
    """`found` over the mean of those without content, as probabilities again."""
    bias = [sum(column) / len(without_content) for column in zip(*without_content, strict=True)]
    ratios = [probability / each for probability, each in zip(found, bias, strict=True)]
    return [ratio / sum(ratios) for ratio in ratios]


def classify_all(texts: Sequence[str], backend: sgl.Backend) -> list[list[float]]:
    """The calibrated probabilities of `LABELS` for each text, all in one batch."""
    rows = [{"text": text} for text in [*WITHOUT_CONTENT, *texts]]
    states = classify.run_batch(rows, backend=backend, on_error="raise")
    found = [probabilities(state) for state in states]
    bias, of_texts = found[: len(WITHOUT_CONTENT)], found[len(WITHOUT_CONTENT) :]
    return [calibrated(each, bias) for each in of_texts]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="what to classify")
    parser.add_argument("--model", help="a model's folder or name; the default model without it")
    options = parser.parse_args(arguments)
    texts = options.texts or TEXTS
    with Runtime(options.model) as runtime:
        for text, found in zip(texts, classify_all(texts, runtime), strict=True):
            shown = ", ".join(f"{label} {p:.0%}" for label, p in zip(LABELS, found, strict=True))
            print(f"{text}\n    {shown}")


if __name__ == "__main__":
    main()
