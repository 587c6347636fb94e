"""Similarity by embeddings: hand values, a loopback server of the embeddings protocol, tiny encoders made here."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.judge.server import Answer, ChatServer, Request, failure
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.protocol import JudgeError, Status
from valor_gpu.text import LocalEncoder, OpenAIEmbedder, SomeFailed, embedding_similarity, served_embedding

KEY = "sk-very-secret-123"
VECTORS = {"zero": [0, 0], "x": [2, 0], "y": [0, 5], "-x": [-1, 0], "xy": [3, 4]}


def embed(texts: list[str]) -> list[list[int]]:
    return [VECTORS[text] for text in texts]


def test_hand_values_and_the_best_reference() -> None:
    found = embedding_similarity(["x", "x", "x", "xy", "xy"], ["x", "y", ["-x"], "x", ["-x", "y", "x"]], embed)
    assert found.dtype == np.float64
    assert found == pytest.approx([1, 0, -1, 0.6, 0.8], abs=1e-15)


def test_zero_vectors_are_nan_and_passed_over_among_references() -> None:
    found = embedding_similarity(["zero", "x", "x", "x"], ["x", "zero", ["zero", "-x"], ["zero", "zero"]], embed)
    assert found.tolist() == pytest.approx([math.nan, math.nan, -1, math.nan], nan_ok=True)


def test_a_text_is_embedded_once_and_no_rows_never() -> None:
    calls: list[list[str]] = []

    def kept(texts: list[str]) -> list[list[int]]:
        calls.append(texts)
        return embed(texts)

    embedding_similarity(["x", "y", "x"], [["x", "xy"], "y", "xy"], kept)
    assert calls == [["x", "xy", "y"]]
    assert embedding_similarity([], [], kept).shape == (0,)
    assert len(calls) == 1


def test_vectors_of_the_user_equal_a_callable_and_numpy() -> None:
    rng = np.random.default_rng(0)
    vectors, true = rng.normal(size=(20, 7)), rng.normal(size=(40, 7))
    predictions, references = [f"p{i}" for i in range(20)], [[f"r{2 * i}", f"r{2 * i + 1}"] for i in range(20)]
    both = dict(zip([*predictions, *(f"r{i}" for i in range(40))], [*vectors, *true]))
    given = embedding_similarity(predictions, references, (vectors, true))
    called = embedding_similarity(predictions, references, lambda texts: np.stack([both[text] for text in texts]))
    lengths = np.linalg.norm(vectors, axis=1)[:, None] * np.linalg.norm(true, axis=1)
    cosines = vectors @ true.T / lengths
    expected = [max(cosines[i, 2 * i], cosines[i, 2 * i + 1]) for i in range(20)]
    assert given == pytest.approx(expected, rel=1e-12)
    assert given.tolist() == called.tolist()


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_lengths_do_not_matter(scale: float) -> None:
    found = embedding_similarity(["a"], ["b"], ([[3 * scale, 4 * scale]], [[1.0, 0.0]]))
    assert found == pytest.approx([0.6], rel=1e-12)


def test_cosines_stay_in_their_range() -> None:
    vectors = np.random.default_rng(1).normal(size=(200, 3))
    found = embedding_similarity(["a"] * 200, ["b"] * 200, (vectors, vectors * 3))
    assert (found <= 1).all()
    assert found == pytest.approx(np.ones(200), abs=1e-15)


def test_tensors_are_taken() -> None:
    torch = pytest.importorskip("torch")
    vectors = torch.tensor([[3.0, 4.0]], dtype=torch.bfloat16, requires_grad=True)
    assert embedding_similarity(["a"], ["b"], (vectors, torch.tensor([[1, 0]]))) == pytest.approx([0.6])


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ([1.0, 2.0], r"embed\(texts\) must have shape \[2, size\] with size at least 1 but got \[2\]"),
        ([[1.0]], r"must have shape \[2, size\] .* got \[1, 1\]"),
        ([[], []], r"must have shape \[2, size\] .* got \[2, 0\]"),
        ([[1.0], [1.0, 2.0]], r"embed\(texts\) must give vectors of one size but their sizes differ"),
        ([["a"], ["b"]], "must hold real numbers but got dtype <U1"),
        ([[1j], [2]], "must hold real numbers but got dtype complex128"),
        ([[True], [False]], "must hold real numbers but got dtype bool"),
        (None, r"must have shape \[2, size\] .* got \[\]"),
        ([[1.0], [math.nan]], "must be finite but row 1 holds NaN or infinity"),
        ([[math.inf], [1.0]], "must be finite but row 0 holds NaN or infinity"),
    ],
)
def test_what_is_no_embedding_is_rejected(result: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        embedding_similarity(["a"], ["b"], lambda texts: result)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (([[1, 2]], [[1, 2, 3]] * 2), "reference_vectors must have the 2 columns of vectors but got"),
        (([[1, 2]], [[1, 2]]), r"reference_vectors must have shape \[2, size\]"),
        (([[1, 2]] * 2, [[1, 2]] * 2), r"vectors must have shape \[1, size\]"),
        (([[1, 2]], [[1, 2], [1, math.nan]]), "reference_vectors must be finite but row 1"),
        (([[1, 2]],), r"embed must be a callable or a tuple \(vectors, reference_vectors\) but got a tuple of 1"),
        ("model", "embed must be a callable or a tuple .* but got str"),
    ],
)
def test_vectors_that_do_not_fit_the_rows_are_rejected(source: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        embedding_similarity(["a"], [["b", "c"]], source)


def test_rows_are_checked_before_anything_is_embedded() -> None:
    with pytest.raises(InputError, match=r"references must have an entry for each of the 1 predictions but has 2"):
        embedding_similarity(["a"], ["b", "c"], lambda texts: pytest.fail("was called"))


def test_neither_torch_nor_clients_are_imported() -> None:
    program = """
import sys
from valor_gpu.text import OpenAIEmbedder, embedding_similarity
OpenAIEmbedder("m")
embedding_similarity(["a"], ["b"], ([[1.0]], [[1.0]])), embedding_similarity(["a"], ["b"], lambda t: [[1.0]] * 2)
assert not {"torch", "transformers", "openai", "httpx"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def vectors_answer(request: Request) -> Answer:
    """Length and number of letters x of each text, in reverse order, as the protocol allows."""
    items = [
        {"object": "embedding", "index": i, "embedding": [float(len(text)), float(text.count("x"))]}
        for i, text in enumerate(request.body["input"])
    ]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return Answer(body={"object": "list", "data": items[::-1], "model": "m", "usage": usage})


def openai_errors() -> type[Exception]:
    import openai

    return openai.OpenAIError


class TestOpenAIEmbedder:
    @pytest.fixture(autouse=True)
    def _client(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("openai")
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def test_batches_order_and_empty_texts(self) -> None:
        with ChatServer(vectors_answer) as server:
            found = OpenAIEmbedder("m", server.url, batch=2)(["x", "", "yy", "xxy"])
        assert found.tolist() == [[1, 1], [0, 0], [2, 0], [3, 2]]
        assert [request.body["input"] for request in server.requests] == [["x", "yy"], ["xxy"]]
        assert {request.path for request in server.requests} == {"/v1/embeddings"}
        assert server.requests[0].body == {"model": "m", "input": ["x", "yy"], "encoding_format": "float"}

    def test_similarity_with_an_empty_prediction(self) -> None:
        with ChatServer(vectors_answer) as server:
            found = embedding_similarity(["xx", ""], ["x", "x"], OpenAIEmbedder("m", server.url))
            alone = embedding_similarity([""], [""], OpenAIEmbedder("m", server.url))
        assert found.tolist() == pytest.approx([1, math.nan], nan_ok=True)
        assert np.isnan(alone).all()
        assert len(server.requests) == 1

    def test_key_and_dimensions_are_sent_and_the_key_is_not_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_KEY", KEY)
        with ChatServer(vectors_answer) as server:
            embedder = OpenAIEmbedder("m", server.url, "MY_KEY", dimensions=2)
            embedder(["x"])
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        assert server.requests[0].body["dimensions"] == 2
        assert repr(embedder) == f"OpenAIEmbedder('m', base_url={server.url!r})"
        assert KEY.encode() not in pickle.dumps(embedder)

    def test_the_key_of_openai_goes_to_no_other_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert OpenAIEmbedder("m").api_key_env == "OPENAI_API_KEY"
        with ChatServer(vectors_answer) as server:
            OpenAIEmbedder("m", server.url)(["x"])
        assert KEY not in str(server.requests[0].headers)

    def test_a_failed_request_is_tried_again(self) -> None:
        def respond(request: Request) -> Answer:
            busy = failure(429, "slow down", retry_after_ms="10")
            return busy if request.number == 0 else vectors_answer(request)

        with ChatServer(respond) as server:
            assert OpenAIEmbedder("m", server.url)(["x"]).tolist() == [[1, 1]]
        assert len(server.requests) == 2

    @pytest.mark.parametrize(
        ("answer", "status", "words"),
        [
            (failure(500, "down"), Status.SERVER_ERROR, "HTTP 500"),
            (failure(400, f"bad {KEY}"), Status.BAD_REQUEST, r"HTTP 400: .*\*\*\*"),
            (failure(401, "no"), Status.UNAUTHORIZED, "rejected the API key"),
            (Answer(body={"object": "list", "data": []}), Status.SERVER_ERROR, "an embedding for each of 2 texts"),
            (Answer(body={"object": "list"}), Status.SERVER_ERROR, "no list of embeddings"),
            (Answer(body=b"nothing"), Status.SERVER_ERROR, "no list of embeddings"),
            (
                Answer(body={"data": [{"index": 0, "embedding": [1.0]}] * 2}),
                Status.SERVER_ERROR,
                r"an embedding for each of 2 texts but has \[0, 0\]",
            ),
            (Answer(body={"data": [1, 2]}), Status.SERVER_ERROR, "no list of embeddings"),
            (Answer(body={"data": [{"index": True}, {"index": 1}]}), Status.SERVER_ERROR, "no list of embeddings"),
            (
                Answer(body={"data": [{"index": 0, "embedding": "AAAA"}, {"index": 1, "embedding": "AAAA"}]}),
                Status.SERVER_ERROR,
                "an embedding of the server must be a list of numbers but is str, base64 perhaps",
            ),
            (Answer(body={"data": "x" * 2000}), Status.TRUNCATED, "cut off after 1,000 bytes: lower batch"),
        ],
    )
    def test_failures_are_reported_without_the_key(
        self, answer: Answer, status: Status, words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MY_KEY", KEY)
        monkeypatch.setattr(served_embedding, "_MAX_REPLY_BYTES", 1000)
        with ChatServer(lambda request: answer) as server, pytest.raises(JudgeError, match=words) as caught:
            OpenAIEmbedder("m", server.url, "MY_KEY", retries=0)(["x", "y"])
        assert caught.value.status is status
        assert KEY not in str(caught.value)
        assert not isinstance(caught.value.__context__, openai_errors())  # it would hold the request with its headers

    @pytest.mark.parametrize(
        ("embedding", "words"),
        [
            (b"[1, NaN]", "be finite but holds NaN or infinity"),
            (b"[1, 1e999]", "be finite but holds NaN or infinity"),
            (b"[1, 1" + b"0" * 400 + b"]", "be finite but holds an integer beyond 1.8e308"),
            (b"[1]", "have 2 numbers, as the others or the argument dimensions, but has 1"),
            (b"[]", "have 2 numbers, as the others or the argument dimensions, but has 0"),
            (b"[1, true]", "be a list of numbers but has bool in it"),
            (b'[1, "2"]', "be a list of numbers but has str in it"),
            (b"[[1, 2]]", "be a list of numbers but has list in it"),
            (b"null", "be a list of numbers but is NoneType"),
            (b'"AACAPwAAAEA="', "be a list of numbers but is str, base64 perhaps, which was not asked for"),
        ],
    )
    def test_an_embedding_that_is_none_fails_alone(self, embedding: bytes, words: str) -> None:
        good = b'{"index": 2, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}'
        body = b'{"data": [%s, {"index": 1, "embedding": %s}]}' % (good, embedding)
        with ChatServer(lambda request: Answer(body=body)) as server:
            with pytest.raises(SomeFailed, match=f"1 of 3 texts have no embedding: .* must {words}") as caught:
                OpenAIEmbedder("m", server.url)(["x", "y", "z"])
            with pytest.raises(JudgeError, match="have 5 numbers, as the others or the argument dimensions, but has 2"):
                OpenAIEmbedder("m", server.url, dimensions=5)(["x", "y", "z"])
        assert caught.value.vectors.tolist() == [[1, 2], [0, 0], [3, 4]]
        assert list(caught.value.failures) == [1] and len(server.requests) == 2

    def test_texts_without_utf8_are_sent_as_visible_characters(self) -> None:
        with ChatServer(vectors_answer) as server:
            OpenAIEmbedder("m", server.url)(["half \ud83d", "nul \x00"])
        assert server.requests[0].body["input"] == ["half \\ud83d", "nul \\u0000"]

    def test_a_key_that_no_header_can_carry_is_named_and_nothing_is_sent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_KEY", KEY + "\n")
        with ChatServer(vectors_answer) as server:
            with pytest.raises(JudgeError, match=r"MY_KEY must hold printable ASCII .* holds a line end"):
                OpenAIEmbedder("m", server.url, "MY_KEY")(["x"])
            assert not server.requests

    def test_a_missing_key_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MY_KEY", raising=False)
        with pytest.raises(JudgeError, match="environment variable MY_KEY must hold the API key but is not set"):
            OpenAIEmbedder("m", "http://127.0.0.1:1/v1", "MY_KEY")(["x"])

    def test_a_missing_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "openai", None)
        with pytest.raises(MissingExtraError, match=r"OpenAIEmbedder needs openai: pip install 'valor_gpu\[llm\]'"):
            OpenAIEmbedder("m", "http://127.0.0.1:1/v1")(["x"])

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"model": ""}, "model must be a name"),
            ({"batch": 0}, "batch must be a whole number of at least 1"),
            ({"retries": -1}, "retries must be at least 0 but got -1"),
            ({"timeout": "1"}, "timeout must be a number but got '1'"),
            ({"base_url": "http://[::1"}, "base_url must be an address"),
            ({"base_url": "https://host/v1?key=sk-1"}, "base_url must hold no query or fragment"),
            ({"dimensions": 0}, "dimensions must be a whole number of at least 1"),
            ({"base_url": "localhost"}, "base_url must be an address that begins with http"),
            ({"api_key_env": KEY}, "api_key_env must be the name of an environment variable but is no such name"),
        ],
    )
    def test_parameters_that_cannot_be(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            OpenAIEmbedder(**{"model": "m", **options})


WORDS = ["[UNK]", "[PAD]", "[CLS]", "the", "cat", "sat", "on", "a", "mat"]
TEXTS = ["the cat sat on the mat", "cat", "", "a mat", "cat cat the", "dog"]
SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}


def tokenizer(pad: str | None = "[PAD]", begins: bool = False) -> Any:
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    known = {word: at for at, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    if begins:
        made.post_processor = tokenizers.processors.TemplateProcessing("[CLS] $A", special_tokens=[("[CLS]", 2)])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token=pad)


def bert(places: int = 32) -> Any:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=places, **SIZES)
    return transformers.BertModel(config)


class TestLocalEncoder:
    @pytest.mark.parametrize("pooling", ["mean", "cls"])
    @pytest.mark.parametrize("pad", ["[PAD]", None])
    def test_a_batch_equals_single_texts(self, pooling: str, pad: str | None) -> None:
        encoder = LocalEncoder(bert(), tokenizer(pad), pooling, batch=4)
        together = encoder(TEXTS)
        alone = np.concatenate([encoder([text]) for text in TEXTS])
        assert together == pytest.approx(alone, abs=1e-5)
        assert np.abs(together[0] - together[1]).max() > 1e-2
        assert not together[2].any()  # no token

    def test_pooling_is_that_of_the_last_layer(self) -> None:
        torch = pytest.importorskip("torch")
        model, words = bert().eval(), tokenizer(begins=True)
        with torch.no_grad():
            states = model(torch.tensor([[2, 3, 4]])).last_hidden_state[0].double().numpy()
        assert LocalEncoder(model, words)(["the cat"])[0] == pytest.approx(states.mean(0), abs=1e-6)
        assert LocalEncoder(model, words, "cls")(["the cat"])[0] == pytest.approx(states[0], abs=1e-6)

    def test_similarity_of_texts(self) -> None:
        encoder = LocalEncoder(bert(), tokenizer())
        found = embedding_similarity(["the cat", "cat", ""], [["mat", "the cat"], "mat", "cat"], encoder)
        assert found[0] == pytest.approx(1)
        assert -1 <= found[1] < 0.999
        assert np.isnan(found[2])
        assert encoder([]).shape == (0, 16)

    def test_long_texts_are_cut(self) -> None:
        encoder = LocalEncoder(bert(places=4), tokenizer())
        assert encoder.max_length == 4
        assert encoder(["the cat sat on the mat"]) == pytest.approx(encoder(["the cat sat on"]))
        short = LocalEncoder(bert(), tokenizer(), max_length=2)
        assert short(["the cat sat"]) == pytest.approx(short(["the cat"]))

    def test_dropout_is_off(self) -> None:
        encoder = LocalEncoder(bert().train(), tokenizer())
        assert encoder(TEXTS).tolist() == encoder(TEXTS).tolist()

    def test_a_folder_equals_its_objects(self, tmp_path: Path) -> None:
        model, words = bert(), tokenizer()
        model.save_pretrained(tmp_path)
        words.save_pretrained(tmp_path)
        loaded = LocalEncoder(tmp_path, device="cpu")
        assert loaded(TEXTS) == pytest.approx(LocalEncoder(model, words)(TEXTS), abs=1e-6)
        assert repr(loaded) == f"LocalEncoder({str(tmp_path)!r}, pooling='mean')"

    def test_of_an_encoder_decoder_the_encoder_is_used(self) -> None:
        transformers = pytest.importorskip("transformers")
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
        model = transformers.T5Model(transformers.T5Config(vocab_size=len(WORDS), **sizes))
        assert LocalEncoder(model, tokenizer())(TEXTS).shape == (len(TEXTS), 16)

    def test_what_is_no_encoder_is_rejected(self) -> None:
        transformers = pytest.importorskip("transformers")
        model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=len(WORDS), **SIZES))
        with pytest.raises(InputError, match="model must give last_hidden_state but 'BertForMaskedLM' does not"):
            LocalEncoder(model, tokenizer())(["cat"])

    def test_nothing_is_downloaded(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"model must be a folder with an encoder but .*nowhere' cannot be loaded"):
            LocalEncoder(str(tmp_path / "nowhere"))
        with pytest.raises(InputError, match="but 'some-owner/some-model' cannot be loaded: it is no"):
            LocalEncoder("some-owner/some-model")

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"pooling": "max"}, "pooling must be one of 'mean', 'cls' but got 'max'"),
            ({"batch": 0}, "batch must be a whole number of at least 1"),
            ({"max_length": 0}, "max_length must be a whole number of at least 1"),
            ({}, "tokenizer must be given with a model that is already loaded but got None"),
        ],
    )
    def test_parameters_that_cannot_be(self, options: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            LocalEncoder(object(), **options)

    def test_a_missing_package_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "transformers", None)
        with pytest.raises(
            MissingExtraError, match=r"LocalEncoder needs transformers: pip install 'valor_gpu\[local\]'"
        ):
            LocalEncoder("folder")
