"""Local judges with tiny models of random weights, made here: batches, ratings by logits, limits, loading."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.judge import loops
from tests.judge.loops import VirtualLoop
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge import (
    LogitsJudge,
    Question,
    TransformersJudge,
    expected_score,
    parse_score,
    question_metric,
    run_judge,
)
from valor_gpu.judge.batches import Batcher
from valor_gpu.judge.protocol import JudgeError, Judgement, Reply, Status
from valor_gpu.judge.scheduler import Scheduler

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers = pytest.importorskip("tokenizers")

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}{% if add_generation_prompt %}<bot> {% endif %}"
)
WORDS = ["the", "cat", "sat", "on", "a", "mat", "good", "bad", "answer", "question", "rate", "from", "to"]
WORDS += ["<user>", "<system>", "<bot>", "Score:"]
PROMPTS = ["the cat sat on a mat", "bad answer", "rate the good question from 1 to 5 rate rate", "mat", "good good"]


def tokenizer(template: str | None = TEMPLATE) -> Any:
    known = {word: at for at, word in enumerate(["[UNK]", "[EOS]", *map(str, range(10)), *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", eos_token="[EOS]")
    fast.chat_template = template
    return fast


def model(kind: str = "llama", seed: int = 0) -> Any:
    torch.manual_seed(seed)
    common = {"vocab_size": 12 + len(WORDS), "bos_token_id": None, "eos_token_id": 1, "pad_token_id": None}
    if kind == "gpt2":
        config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, n_positions=64, **common)
        return transformers.GPT2LMHeadModel(config)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    made = transformers.LlamaForCausalLM(transformers.LlamaConfig(max_position_embeddings=64, **sizes, **common))
    with torch.no_grad():
        made.lm_head.weight.mul_(40)  # else random weights give all tokens nearly the same probability
    return made


def message(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def replies(judge: Any, prompts: list[str]) -> list[Reply]:
    async def all_of_them() -> list[Reply]:
        return list(await asyncio.gather(*(judge(message(text), None) for text in prompts)))

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize(("low", "high"), [(1, 5), (0, 7)])
def test_logits_are_those_of_each_prompt_alone(kind: str, low: int, high: int) -> None:
    network, words = model(kind), tokenizer()
    judge = LogitsJudge(network, words, low=low, high=high, batch_size=8)
    together = replies(judge, PROMPTS)
    for text, reply in zip(PROMPTS, together):
        ids = words(f"<user> {text} <bot>", return_tensors="pt")["input_ids"]
        with torch.no_grad():
            probabilities = torch.softmax(network(input_ids=ids).logits[0, -1].double(), 0)
        ratings = range(low, high + 1)
        shares = [float(probabilities[words.convert_tokens_to_ids(str(rating))]) for rating in ratings]
        found = expected_score(reply, low, high)
        assert found.mass == pytest.approx(sum(shares), rel=1e-4)
        assert [found.probabilities[r] for r in ratings] == pytest.approx([s / sum(shares) for s in shares], rel=1e-4)
        assert found.value == pytest.approx(sum(r * s for r, s in zip(ratings, shares)) / sum(shares), rel=1e-4)
        assert json.loads(reply.text) == {"score": low + shares.index(max(shares))}
        assert (reply.usage.prompt, reply.usage.completion) == (ids.shape[1], 1)
    singles = [replies(judge, [text])[0] for text in PROMPTS]
    for single, batched in zip(singles, together):
        assert single.text == batched.text
        assert expected_score(single, low, high).value == pytest.approx(
            expected_score(batched, low, high).value, rel=1e-5
        )
    assert len({expected_score(reply, low, high).value for reply in together}) == len(PROMPTS)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_generated_text_is_that_of_each_prompt_alone(kind: str) -> None:
    network, words = model(kind), tokenizer()
    judge = TransformersJudge(network, words, max_new_tokens=6, batch_size=3)
    together = replies(judge, PROMPTS)
    for text, reply in zip(PROMPTS, together):
        ids = words(f"<user> {text} <bot>", return_tensors="pt")["input_ids"]
        written: list[int] = []
        while len(written) < 6 and 1 not in written:  # greedy, token by token
            with torch.no_grad():
                step = torch.cat([ids, torch.tensor([written], dtype=ids.dtype)], 1)
                written.append(int(network(input_ids=step).logits[0, -1].argmax()))
        assert reply.text == words.decode(written, skip_special_tokens=True).strip()
        assert reply.finish_reason == ("stop" if written[-1] == 1 else "length")
        assert (reply.usage.prompt, reply.usage.completion) == (ids.shape[1], len(written))


def test_end_of_text_ends_a_reply_and_its_batch_goes_on() -> None:
    network = model()
    judge = TransformersJudge(network, tokenizer(), max_new_tokens=6, batch_size=8)
    plain = replies(judge, PROMPTS)
    # A token that some of the replies have, and others have not, becomes an end.
    texts = [reply.text.split() for reply in plain]
    end = next(word for text in texts for word in text if not all(word in other for other in texts))
    network.generation_config.eos_token_id = [tokenizer().convert_tokens_to_ids(end), 1]
    for before, after in zip(plain, replies(judge, PROMPTS)):
        whole = before.text.split()
        kept = whole[: whole.index(end)] if end in whole else whole
        assert after.text.split() == kept and after.finish_reason == ("stop" if end in whole else "length")
        assert after.usage.completion == len(kept) + (end in whole)


def test_runs_of_rows_with_failures_that_spoil_no_batch() -> None:
    def rate(row: str) -> Question:
        return Question(message(row), lambda text: parse_score(text, 1, 5).value)

    judge = LogitsJudge(model(), tokenizer(), name="tiny", batch_size=4)
    rows = [*PROMPTS, "cat " * 100]
    run = run_judge(rows, [question_metric("q", rate, 1, 5)], judge)
    assert run.summaries["q"].n_scored == 5 and run.summaries["q"].n_failed == {"bad_request": 1}
    assert "the prompt has 102 tokens" in run.judgements["q"][-1][0].error and run.peak == 6
    assert [row[0].value for row in run.judgements["q"][:5]] == [
        json.loads(r.text)["score"] for r in replies(judge, PROMPTS)
    ]

    def boom(*_: Any, **__: Any) -> Any:
        raise RuntimeError("device lost")

    judge._model.forward = boom
    scheduler = Scheduler(judge)
    lost: Judgement = loops.run(scheduler, lambda: scheduler.ask(rate("mat")))
    assert lost.status is Status.JUDGE_ERROR and "RuntimeError: device lost" in lost.error


def test_a_batch_that_does_not_fit_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = LogitsJudge(model(), tokenizer(), batch_size=8)
    expected = [reply.text for reply in replies(judge, PROMPTS)]
    sizes: list[int] = []
    whole = judge._batch

    def small(inputs: Any) -> list[Reply]:
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 2:
            raise torch.cuda.OutOfMemoryError("too much")
        return whole(inputs)

    monkeypatch.setattr(judge, "_batch", small)
    assert [reply.text for reply in replies(judge, PROMPTS)] == expected and sizes == [5, 2, 3, 1, 2]


def test_beginnings_templates_and_loading_from_a_folder(tmp_path: Path) -> None:
    network, words = model(), tokenizer()
    ids = words("<user> mat <bot> Score:", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        wanted = torch.log_softmax(network(input_ids=ids).logits[0, -1].double(), 0)[2 + 3]
    (found,) = replies(LogitsJudge(network, words, beginning="Score:"), ["mat"])
    assert found.logprobs is not None and found.logprobs[0]["3"] == pytest.approx(float(wanted), rel=1e-4)
    (plain,) = replies(LogitsJudge(network, tokenizer(template=None)), ["mat"])
    assert plain.usage.prompt == 3  # user: mat assistant:
    network.save_pretrained(tmp_path / "m")
    words.save_pretrained(tmp_path / "m")
    loaded = LogitsJudge(str(tmp_path / "m"), beginning="Score:", dtype=torch.float32)
    assert replies(loaded, ["mat"])[0].text == found.text
    assert loaded.identity is not None and loaded.identity["model"] == str(tmp_path / "m")
    assert LogitsJudge(network, words).identity is None
    assert "tiny" in repr(TransformersJudge(network, words, name="tiny"))


def test_wrong_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, words = model(), tokenizer()
    for options, error in (
        ({"low": 1, "high": 10}, "0 <= low < high <= 9 but got 1 and 10"),
        ({"batch_size": 0}, "batch_size must be at least 1 but got 0"),
    ):
        with pytest.raises(InputError, match=error):
            LogitsJudge(network, words, **options)
    with pytest.raises(InputError, match="max_new_tokens must be at least 1"):
        TransformersJudge(network, words, max_new_tokens=0)
    with pytest.raises(InputError, match="max_new_tokens must be int but got str"):
        TransformersJudge(network, words, max_new_tokens="9")
    with pytest.raises(InputError, match="beginning must be str but got int"):
        LogitsJudge(network, words, beginning=3)
    with pytest.raises(InputError, match="tokenizer must be given"):
        LogitsJudge(network)
    with pytest.raises(InputError, match="cannot be loaded; download=True fetches"):
        LogitsJudge(str(tmp_path / "nothing"))
    blind = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    with pytest.raises(InputError, match="must have a token for each rating but has none for 1"):
        LogitsJudge(network, transformers.PreTrainedTokenizerFast(tokenizer_object=blind, unk_token="[UNK]"))
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"LogitsJudge needs transformers: pip install 'valor_gpu\[local\]'"):
        LogitsJudge(network, words)


def test_logits_that_are_nan_rate_nothing() -> None:
    network = model()
    with torch.no_grad():
        network.lm_head.weight[0] = math.nan
    judge = LogitsJudge(network, tokenizer(), batch_size=2)
    with pytest.raises(JudgeError, match="gave NaN as the logit of a token") as caught:
        replies(judge, PROMPTS[:1])
    assert (caught.value.status, caught.value.max_retries) == (Status.JUDGE_ERROR, 0)


def test_texts_without_utf8_reach_the_tokenizer_as_visible_characters() -> None:
    judge = TransformersJudge(model(), tokenizer(), max_new_tokens=2)
    odd, visible = replies(judge, ["the \ud83d cat \x00", "the \\ud83d cat \\u0000"])
    assert odd == visible


def test_batches_gather_and_errors_reach_every_caller() -> None:
    sizes: list[int] = []

    def work(numbers: list[int]) -> list[float]:
        sizes.append(len(numbers))
        return [1 / number for number in numbers]

    async def ask(numbers: list[int]) -> list[Any]:
        batcher = Batcher(work, 4)
        return list(await asyncio.gather(*(batcher(number) for number in numbers), return_exceptions=True))

    assert asyncio.run(ask(list(range(1, 11)))) == [1 / number for number in range(1, 11)] and sizes == [4, 4, 2]
    assert all(isinstance(found, ZeroDivisionError) for found in asyncio.run(ask([1, 0, 2])))

    async def one_after_the_other() -> None:
        batcher = Batcher(work, 4)
        first = asyncio.ensure_future(batcher(1))
        await asyncio.sleep(0.002)
        await asyncio.gather(first, batcher(2))

    sizes.clear()
    loop = VirtualLoop()
    loop.run_until_complete(one_after_the_other())
    loop.close()
    assert sizes == [2]

    async def cancelled() -> float:
        batcher = Batcher(work, 4)
        first, second = asyncio.ensure_future(batcher(7)), asyncio.ensure_future(batcher(8))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    sizes.clear()
    assert asyncio.run(cancelled()) == 1 / 8 and sizes == [1]
