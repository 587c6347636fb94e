"""BERTScore: equal to torchmetrics and brute force; idf, baselines, several references, texts without tokens."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from valor_gpu import functional
from valor_gpu.errors import InputError
from valor_gpu.text import BERTScore, IdfWeights

WORDS = {word: number for number, word in enumerate(["the", "cat", "sat", "on", "a", "mat", "dog", "ran"])}
TABLE = torch.randn((len(WORDS), 12), generator=torch.Generator().manual_seed(3))
PREDS = ["the cat sat", "a dog ran on the mat", "mat"]
TARGET = ["a cat sat on the mat", "the dog ran", "the cat"]


def encode(texts: list[str]) -> list[tuple[list[int], Tensor]]:
    """Token numbers and embeddings, which do not depend on the other words."""
    assert len(set(texts)) == len(texts)
    numbers = [[WORDS[word] for word in text.split()] for text in texts]
    return [(row, TABLE[row]) for row in numbers]


def brute(pred: str, target: str, idf: IdfWeights | None = None) -> list[float]:
    """By the cosine of every two tokens."""
    sides = [[WORDS[word] for word in text.split()] for text in (pred, target)]
    units = torch.nn.functional.normalize(TABLE.double(), dim=1).numpy()
    cosines = units[sides[0]] @ units[sides[1]].T
    parts = []
    for side, best in zip(sides, (cosines.max(1), cosines.max(0))):
        weights = [1.0 if idf is None else idf.weights.get(token, idf.unseen) for token in side]
        parts.append(float(np.average(best, weights=weights)))
    return [*parts, 2 * parts[0] * parts[1] / (parts[0] + parts[1])]


def rows(values: dict[str, Tensor]) -> list[list[float]]:
    return torch.stack([values[name] for name in ("precision", "recall", "f1")], 1).tolist()


@pytest.mark.parametrize("weighted", [False, True])
def test_brute_force(weighted: bool) -> None:
    idf = IdfWeights.of([row for row, _ in encode(TARGET)]) if weighted else None
    found = functional.bert_score(PREDS, TARGET, encode, idf)
    assert np.array(rows(found)) == pytest.approx(np.array([brute(p, t, idf) for p, t in zip(PREDS, TARGET)]), abs=1e-6)


def test_torchmetrics_matches_the_same() -> None:
    peer = importlib.import_module("torchmetrics.functional.text.bert")
    vectors = [torch.rand((2, 5, 16), generator=torch.Generator().manual_seed(seed)) + 0.01 for seed in (1, 2)]
    units = [torch.nn.functional.normalize(each, dim=-1)[:, None] for each in vectors]
    expected = peer._get_precision_recall_f1(*units, torch.full((2, 5), 0.2), torch.full((2, 5), 0.2))
    found = functional.bert_score(list(vectors[0]), list(vectors[1]))
    for ours, theirs in zip(found.values(), expected):
        assert ours.numpy() == pytest.approx(theirs.numpy(), abs=1e-6)


def test_bert_score_gives_the_same() -> None:
    peer = pytest.importorskip("bert_score.utils", reason="bert-score is not installed")
    generator = torch.Generator().manual_seed(5)
    # Positive numbers: padding counts as a cosine of 0 there, which wins where all others are negative.
    sides = [[torch.rand((size, 16), generator=generator) for size in sizes] for sizes in ((4, 3, 6), (3, 5, 4))]
    given: list[Tensor] = []  # embeddings, mask and weights of the references, then of the predictions
    for side in sides:
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(text)) for text in side], True)
        given += [torch.nn.utils.rnn.pad_sequence(side, True, 1.0), mask.bool(), mask]
    found = functional.bert_score(sides[1], sides[0])
    for ours, theirs in zip(found.values(), peer.greedy_cos_idf(*given)):
        assert ours.numpy() == pytest.approx(theirs.numpy(), abs=1e-6)


def test_float64_embeddings_are_compared_in_float32_as_documented() -> None:
    """numpy in float64 is the authority; a float32 dot product of 1,024 numbers in 32 lanes adds 32 + 5 times."""
    rng = np.random.default_rng(5)
    sides = [[rng.normal(size=(int(rng.integers(1, 9)), 1024)) + 0.5 for _ in range(30)] for _ in range(2)]
    expected = []
    for side in zip(*sides):
        units = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in side]
        cosines = units[0] @ units[1].T
        precision, recall = cosines.max(1).mean(), cosines.max(0).mean()
        expected.append([precision, recall, 2 * precision * recall / (precision + recall)])
    preds, target = ([torch.from_numpy(each) for each in side] for side in sides)
    found = functional.bert_score(preds, target)
    errors = np.abs(np.array(rows(found)) - expected)
    assert 0 < errors.max() < 1e-6
    assert "right to 1e-6" in (BERTScore.__doc__ or "")


def test_idf_weights() -> None:
    weights = IdfWeights.of([[1, 1, 2], [2, 3]])
    assert weights.weights == {1: math.log(3 / 2), 2: 0.0, 3: math.log(3 / 2)} and weights.unseen == math.log(3)
    found = functional.bert_score([([2], TABLE[:1])] * 2, [([1], TABLE[:1])] * 2, idf=weights)
    assert rows(found)[0] == [0, pytest.approx(1), 0]  # a prediction whose tokens all weigh 0


def test_several_references_and_a_baseline() -> None:
    several = [[TARGET[0], "the cat sat"], TARGET[1], ["", "mat"]]
    plain = rows(functional.bert_score(PREDS, several, encode))
    both = np.array([brute(PREDS[0], TARGET[0]), brute(PREDS[0], "the cat sat")]).max(0)
    assert plain[0] == pytest.approx(both, abs=1e-6) and plain[2] == pytest.approx([1, 1, 1])
    scaled = rows(functional.bert_score(PREDS, several, encode, baseline=(0.5, 0.25, 0.0)))
    expected = [[(p - 0.5) / 0.5, (r - 0.25) / 0.75, f] for p, r, f in plain]
    assert np.array(scaled) == pytest.approx(np.array(expected))


def test_batches_and_results() -> None:
    whole, parts = BERTScore(encode), BERTScore(encode)
    whole.update([*PREDS, ""], [*TARGET, "cat"])
    for row in range(3):
        parts.update(PREDS[row : row + 1], TARGET[row : row + 1])
    parts.update([], [])
    parts.update([""], ["cat"])
    assert torch.equal(whole.state().scores, parts.state().scores)
    result = parts.result()
    assert dict(result.counts) == {"rows": 4, "empty": 1}
    assert result.values["f1"] == pytest.approx(float(whole.compute()["f1"].mean()))
    assert rows(whole.compute())[3] == [0, 0, 0] and whole.compute()["f1"].dtype == torch.float64
    assert set(BERTScore().result().reasons.values()) == {"no row was added", "fewer than two rows"}


def test_a_text_alone_is_a_row() -> None:
    alone, listed = BERTScore(encode), BERTScore(encode)
    alone.update(PREDS[0], [TARGET[0], "the cat sat"])
    listed.update(PREDS[:1], [[TARGET[0], "the cat sat"]])
    assert torch.equal(alone.state().scores, listed.state().scores) and len(alone.state().scores) == 1


def test_an_encoder_of_transformers() -> None:
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    from valor_gpu.text import LocalEncoder

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]
    ids = {word: number for number, word in enumerate(words)}
    table = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="[UNK]"))
    table.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    table.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=marks)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=table, unk_token="[UNK]", pad_token="[PAD]")
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = transformers.BertModel(transformers.BertConfig(vocab_size=len(words), **sizes))
    encoder = LocalEncoder(model, fast, batch=2)
    found = encoder.tokens(["the owl sat", "", "cat"])
    assert [row for row, _ in found] == [[4, 1, 6], [], [5]]  # an unknown word is a token, the marks are none
    with torch.no_grad():
        states = model(torch.tensor([[2, 4, 1, 6, 3]])).last_hidden_state[0, 1:4]
    assert found[0][1].numpy() == pytest.approx(states.numpy(), abs=1e-6) and found[1][1].shape == (0, 8)
    assert encoder.tokens([]) == []
    scores = functional.bert_score(["the cat sat", ""], ["the cat sat", "cat"], encoder.tokens)
    assert scores["f1"].tolist() == [pytest.approx(1), 0]


BAD: list[tuple[dict[str, Any], Any, Any, str]] = [
    ({}, [TABLE], [], "target must have one row for each of the 1 of preds but has 0"),
    ({}, [TABLE], [[]], r"target\[0\] must have at least one reference"),
    ({}, [TABLE[0]], [TABLE], r"preds\[0\] must be floating \[tokens, size\] but got torch.float32 \[12\]"),
    ({}, [TABLE], [TABLE[:, :5]], r"must have embeddings of one size on one device but have \[\(5, 'cpu'\), \(12,"),
    ({}, [TABLE], [TABLE * 0], "target must have vectors of a length from .* that of token 0 has not"),
    ({}, [TABLE], [TABLE.long()], r"target\[0\] must be floating .* but got torch.int64"),
    ({"idf": IdfWeights({}, 1.0)}, [TABLE], [TABLE], r"preds\[0\] must be a tuple of token numbers and embeddings"),
    ({"idf": IdfWeights({}, 1.0)}, [([1], TABLE)], [TABLE], r"preds\[0\] must have a number for each of its 8 tokens"),
    ({"encoder": lambda texts: []}, ["a"], ["b"], "encoder must give one item for each of 2 texts but gave 0"),
    ({"encoder": lambda texts: [3] * len(texts)}, ["a"], ["b"], r"encoder\('a'\) must be"),
    ({"encoder": encode}, ["cat"], [None], "must"),
]


@pytest.mark.parametrize(("choices", "preds", "target", "said"), BAD)
def test_bad_rows_change_nothing(choices: dict[str, Any], preds: Any, target: Any, said: str) -> None:
    metric = BERTScore(**choices)
    with pytest.raises(InputError, match=said):
        metric.update(preds, target)
    assert not metric.update_called and len(metric.state().scores) == 0


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"encoder": "bert-base"}, "encoder must be a function of texts or None but got str"),
        ({"idf": True}, "idf must be .* but got bool"),
        ({"baseline": (0.5, 0.5)}, "baseline must be precision, recall and F1 but has 2 numbers"),
        ({"baseline": (0.5, 0.5, 1.0)}, r"baseline \(f1\) must be in"),
    ],
)
def test_bad_choices(choices: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        BERTScore(**choices)


def test_impossible_states_are_rejected() -> None:
    metric = BERTScore(encode)
    metric.update(PREDS, TARGET)
    for field, value in (("scores", math.nan), ("without_tokens", 4), ("without_tokens", -1)):
        state: dict[str, Any] = dict(metric.metric_state)
        state[field] = [torch.full_like(state[field][0], value)] if field == "scores" else torch.tensor(value)
        with pytest.raises(InputError, match=f"state field {field}"):
            BERTScore(encode).merge_state(state)
