"""InfoLM over tiny models made here, beside torchmetrics and plain loops over the definition."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.functional import infolm
from valor_gpu.text import InfoLM, MaskedModel
from valor_gpu.text.infolm import MEASURES

transformers = pytest.importorskip("transformers")

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "dog", "ran", "far", "away")
CHOICES: list[dict[str, Any]] = [
    {"information_measure": "kl_divergence"},
    {"information_measure": "alpha_divergence", "alpha": 0.5},
    {"information_measure": "beta_divergence", "beta": 0.5},
    {"information_measure": "ab_divergence", "alpha": 0.25, "beta": 0.5},
    {"information_measure": "renyi_divergence", "alpha": 0.3},
    {"information_measure": "l1_distance"},
    {"information_measure": "l2_distance"},
    {"information_measure": "l_infinity_distance"},
    {"information_measure": "fisher_rao_distance"},
]


def made(seed: int = 0) -> tuple[Any, Any]:
    """A model with random weights, and its tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    named = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, **named)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=24, initializer_range=0.7,
    )  # fmt: skip
    torch.manual_seed(seed)
    return transformers.BertForMaskedLM(config).eval(), tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("masked")
    model, tokenizer = made()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


def texts(seed: int, size: int, longest: int = 8) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS[5:], rng.integers(1, longest)).tolist()) for _ in range(size)]


def by_hand(preds: list[str], target: list[str], choice: dict[str, Any], idf: bool, temperature: float) -> list[float]:
    """The definition, place by place, in probabilities that are never batched."""
    model, tokenizer = made()

    def distributions(side: list[str]) -> list[torch.Tensor]:
        rows = [tokenizer(text)["input_ids"] for text in side]
        found = []
        for row in rows:
            total, weights = torch.zeros(len(WORDS), dtype=torch.float64), 0.0
            for place in range(1, len(row) - 1):
                having = sum(row[place] in other for other in rows)
                weight = math.log((len(rows) + 1) / (having + 1)) if idf else 1.0
                masked = torch.tensor([[*row[:place], 4, *row[place + 1 :]]])
                with torch.no_grad():
                    logits = model(masked).logits[0, place].double()
                total += weight * (logits / temperature).softmax(-1)
                weights += weight
            found.append(total / weights)
        return found

    measure = MEASURES[choice["information_measure"]]
    given = choice.get("alpha", 0.0), choice.get("beta", 0.0)
    return [float(measure(p, q, *given)) for p, q in zip(distributions(preds), distributions(target))]


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice["information_measure"])
def test_the_definition(choice: dict[str, Any], idf: bool) -> None:
    preds, target = texts(1, 5), texts(2, 5)
    metric = InfoLM(MaskedModel(*made(), batch=3), 0.5, idf=idf, return_sentence_level_score=True, **choice)
    metric.update(preds[:2], target[:2])
    metric.update(preds[2:], target[2:])
    mean, rows = metric.compute()
    want = by_hand(preds, target, choice, idf, 0.5)
    assert rows.tolist() == pytest.approx(want, rel=2e-4, abs=2e-6)
    assert float(mean) == pytest.approx(np.mean(want), rel=2e-4)


@pytest.mark.parametrize("idf", [False, True])
@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice["information_measure"])
def test_torchmetrics_where_it_keeps_the_order_of_rows(folder: str, choice: dict[str, Any], idf: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = pytest.importorskip("torchmetrics.functional.text.infolm").infolm
        for seed in seeds(2):
            # It puts sorted rows back by the wrong permutation, which two rows cannot show.
            preds, target = texts(seed, 2), texts(seed + 50, 2)
            given = {"idf": idf, "max_length": 12, "return_sentence_level_score": True, **choice}
            mean, rows = peer(preds, target, folder, verbose=False, **given)
            found_mean, found = infolm(preds, target, folder, **given)
            np.testing.assert_allclose(found.numpy(), rows.numpy(), rtol=1e-3, atol=1e-5)
            assert float(found_mean) == pytest.approx(float(mean), rel=1e-3, abs=1e-5)


def test_batches_of_texts_change_no_more_than_rounding() -> None:
    preds, target = texts(3, 9), texts(4, 9)
    found = [
        infolm(preds, target, MaskedModel(*made(), batch=size), idf=True, return_sentence_level_score=True)[1]
        for size in (1, 4, 64)
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other.numpy(), found[0].numpy(), rtol=1e-5)


def test_rows_without_a_token_are_counted_and_have_zero() -> None:
    metric = InfoLM(MaskedModel(*made()), idf=False, return_sentence_level_score=True)
    metric.update(["", "the cat"], ["the cat", "the dog"])
    assert metric.compute()[1].tolist()[0] == 0.0
    assert metric.result().counts == {"rows": 2, "empty": 1}
    assert math.isnan(InfoLM(MaskedModel(*made())).result().values["infolm"])


def test_intervals_and_files(tmp_path: Path) -> None:
    model = MaskedModel(*made())
    metric = InfoLM(model)
    metric.update(texts(5, 6), texts(6, 6))
    found = metric.result(intervals=50)
    assert found.intervals["infolm"].low <= found.values["infolm"] <= found.intervals["infolm"].high
    other = InfoLM(model).from_bytes(metric.to_bytes())
    assert other.compute() == metric.compute()
    assert not metric.state_dict()


def test_texts_are_cut(folder: str) -> None:
    assert MaskedModel(folder).max_length == 24 and MaskedModel(folder, max_length=5).max_length == 5
    long = " ".join(["cat"] * 100)
    assert infolm([long], [long], folder, idf=False, max_length=6) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"temperature": 0.0}, "temperature must be in"),
        ({"information_measure": "kl"}, "information_measure must be one of"),
        ({"information_measure": "alpha_divergence"}, "alpha must be given for information_measure='alpha_divergence'"),
        ({"information_measure": "alpha_divergence", "alpha": 1}, "alpha must not be 1 for"),
        ({"information_measure": "beta_divergence", "beta": -1}, "beta must not be -1 for"),
        ({"information_measure": "ab_divergence", "alpha": 1.0, "beta": -1.0}, "beta must not be -1.0 for"),
        ({"information_measure": "renyi_divergence", "alpha": 1.0}, "alpha must not be 1.0 for"),
        ({"idf": 1}, "idf must be"),
    ],
)
def test_arguments_out_of_range(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        InfoLM(MaskedModel(*made()), **given)


def test_bad_models_and_rows(tmp_path: Path) -> None:
    message = "nothing is downloaded, but 'bert-base-uncased' cannot be loaded: it is no folder"
    with pytest.raises(InputError, match=message):
        InfoLM()
    model, tokenizer = made()
    with pytest.raises(InputError, match="tokenizer must be given with a model that is already loaded"):
        MaskedModel(model)
    tokenizer.mask_token = None
    with pytest.raises(InputError, match="tokenizer must have a mask token"):
        MaskedModel(model, tokenizer)
    metric = InfoLM(MaskedModel(*made()))
    with pytest.raises(InputError, match="target must have one text for each row but has 3 for 2 rows"):
        metric.update(["a", "b"], ["a", ["b", "c"]])  # type: ignore[list-item]
    with pytest.raises(InputError, match="have an entry for each"):
        metric.update(["a", "b"], ["a"])
    assert len(metric.state().lengths) == 0
