"""Settings of the wizard: parameters, thresholds and how the rows are run, in forms, in texts and in the run."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from tests.judge.server import ChatServer, failure
from tests.web.pages import client, send, text_of
from tests.web.work import wait
from valor_gpu.evaluation.run import evaluate
from valor_gpu.store import Store
from valor_gpu.web.registry import read_registry

CSV = b"question,answer,ground_truth,kind\nWho?,Ada 12,Ada,a\nWhat?,Nothing,Something,b\nWhen?,In 1843,1843,a\n"


@pytest.fixture
def browser(path: Path, server: ChatServer, tmp_path: Path) -> TestClient:
    judge = {"model": "stub", "base_url": server.url, "api_key_env": "STUDIO_TEST_KEY"}
    (tmp_path / "punkt").mkdir()
    registry = read_registry({
        "judges": {"free": judge, "priced": {**judge, "prices": {"prompt": 1000, "completion": 1000}}},
        "embeddings": {"small": {**judge, "model": "bge"}},
        "folders": {"nltk": str(tmp_path / "punkt")},
    })  # fmt: skip
    return client(path, registry=registry)


def draft(browser: TestClient) -> str:
    address = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    send(browser, f"{address}/basics", {"name": "settings", "scenario": "qa", "source": "data"})
    send(browser, f"{address}/data", {"do": "load"}, files={"file": ("rows.csv", CSV)})
    return address


def settle(browser: TestClient, address: str, *metrics: str, **fields: Any) -> Any:
    form = {"metric": list(metrics), "level": "Medium", "settings": "yes"}
    return send(
        browser, f"{address}/metrics", {**form, **{name.replace("__", "-"): text for name, text in fields.items()}}
    )


def problem(page: Any, name: str) -> str:
    found = re.findall(rf'id="problem-{re.escape(name)}"[^>]*>(.*?)</p>', page.text, re.DOTALL)
    return unescape(re.sub("<[^>]+>", "", found[0])).strip() if found else ""


FULL = {
    "set__regex__pattern": r"^\w+ \d+$",
    "set__regex__full": "yes",
    "set__contains__texts": "Ada\r\n1843",
    "set__length__unit": "words",
    "set__length__most": "1",
    "set__rouge1__tokenizer": "unicode",
    "pass__regex": "1",
    "pass__f1_score": "0.5",
    "run__limit": "2",
    "run__slice": ["kind", "nothing"],
}
METRICS = ("regex", "contains", "length", "f1_score", "rouge1")


def test_settings_go_through_review_run_texts_and_duplicate(browser: TestClient, path: Path) -> None:
    address = draft(browser)
    page = settle(browser, address, *METRICS, **FULL, do="next")
    assert page.url.path == f"{address}/review"
    shown = text_of(page)
    assert (
        "full true" in shown
        and "regex passes at 1" in shown
        and "Rows at most 2" in shown
        and "Numbers by kind" in shown
    )
    texts = [unescape(each) for each in re.findall(r'<pre tabindex="0">(.*?)</pre>', page.text, re.DOTALL)]
    said = yaml.safe_load(texts[0])
    assert said["metric_params"]["regex"] == {"pattern": r"^\w+ \d+$", "full": True}
    assert said["metric_params"]["rouge1"] == {"tokenizer": "unicode"}
    assert said["metric_params"]["contains"] == {"texts": ["Ada", "1843"]}
    assert said["thresholds"] == {"regex": 1, "f1_score": 0.5}
    uid = send(browser, f"{address}/submit").url.path.rsplit("/", 1)[1]
    with Store(path) as store:
        wait(lambda: store.run(uid).state == "finished")
        run = store.run(uid)
        again = store.run(str(evaluate(**said, store=store).run_id))
        names: dict[str, Any] = {}
        exec(texts[1], names)
        third = store.run(str(names["result"].run_id))
        for other in (again, third):
            for part in ("evaluators", "thresholds", "limit", "slice_by", "metric_params", "data_mapping", "data"):
                assert other.config[part] == run.config[part], part
            summary, same = run.finished_summary or {}, other.finished_summary or {}
            assert same["metrics"] == summary["metrics"] != {}
        assert len(run.rows()) == 2
    copy = send(browser, f"/runs/{uid}/duplicate")
    kept = [unescape(each) for each in re.findall(r'<pre tabindex="0">(.*?)</pre>', copy.text, re.DOTALL)]
    assert yaml.safe_load(kept[0]) == {**said, "evaluation_name": "settings (copy)",
                                       "data_mapping": run.config["data_mapping"]}  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "fields", "place", "said"),
    [
        ("regex", {}, "set-regex-pattern", "regex needs it."),
        ("regex", {"set__regex__pattern": "(", "do": "next"}, "set-regex", "pattern"),
        ("length", {"set__length__most": "many"}, "set-length-most", "must be a number but is 'many'"),
        ("json_schema", {"set__json_schema__schema": '{"a":\n}'}, "set-json_schema-schema", "line 2, column 1 is none"),
        ("json_schema", {"set__json_schema__schema": '{"type": "nothing"}'}, "set-json_schema", "schema"),
        ("contains", {"set__contains__mode": "every"}, "set-contains-mode", "must be one of any, all"),
        ("rouge1", {"set__rouge1__tokenizer": "thai"}, "set-rouge1-tokenizer", "must be one of alphanumeric"),
        ("bleu", {"set__bleu__punkt": "/etc"}, "set-bleu-punkt", "must be one of nltk but is '/etc'"),
        ("f1_score", {"pass__f1_score": "2"}, "metrics", "threshold of f1_score must be"),
        ("f1_score", {"run__limit": "0"}, "run-limit", "must be a whole number above 0"),
        ("f1_score", {"run__limit": "1.5"}, "run-limit", "must be a whole number above 0"),
        ("f1_score", {"run__max_cost": "nan"}, "run-max_cost", "must be a number but is 'nan'"),
        ("f1_score", {"run__baseline": "nothing"}, "run-baseline", "nothing"),
        ("ada_similarity", {}, "run-embedding", "Choose a model of embeddings"),
        ("gpt_coherence", {"judge": "free", "run__max_cost": "1"}, "run-max_cost", "max_cost must come with prices"),
    ],
)
def test_what_cannot_be_is_said_at_its_field(
    browser: TestClient, metric: str, fields: dict[str, Any], place: str, said: str
) -> None:
    address = draft(browser)
    page = settle(browser, address, metric, **{"do": "next", **fields})
    assert page.url.path == f"{address}/metrics"
    assert said in problem(page, place)
    assert "Nothing was started." in text_of(send(browser, f"{address}/submit"))


def test_a_setting_keeps_what_was_typed(browser: TestClient) -> None:
    address = draft(browser)
    page = settle(browser, address, "regex", set__regex__pattern='"><script>alert(1)</script>', set__regex__timeout="x")
    assert "<script>alert" not in page.text
    assert 'value="&#34;&gt;&lt;script&gt;' in page.text and 'value="x"' in page.text
    page = settle(browser, address, "f1_score")  # the field of the other metric is not in the form
    assert "regex" not in problem(page, "set-regex-pattern")
    assert 'value="x"' in settle(browser, address, "regex").text


def test_a_key_is_not_kept(browser: TestClient, path: Path) -> None:
    address, key = draft(browser), "sk-proj-abcdefghijklmnop1234"
    page = settle(browser, address, "regex", set__regex__pattern=key)
    assert "was not kept" in text_of(page) and key not in page.text
    assert key.encode() not in path.read_bytes() + Path(f"{path}-wal").read_bytes()


def test_a_baseline_gives_the_answers_that_preference_needs(browser: TestClient, path: Path) -> None:
    address = draft(browser)
    assert "Needs a baseline run" in text_of(settle(browser, address, "f1_score"))
    first = send(browser, f"{address}/submit").url.path.rsplit("/", 1)[1]
    with Store(path) as store:
        wait(lambda: store.run(first).state == "finished")
        address = draft(browser)
        settle(browser, address, run__baseline=first)
        page = settle(browser, address, "preference", run__baseline=first, judge="priced", run__max_cost="5", do="next")
        assert "Judge calls 6 " in text_of(page)
        assert f"Baseline {first}" in text_of(page) and "Stop at cost 5" in text_of(page)


def test_embeddings_are_chosen_by_name_and_found_by_the_worker(
    browser: TestClient, path: Path, server: ChatServer
) -> None:
    server.respond = lambda request: failure(400, "no embeddings here")
    address = draft(browser)
    page = settle(browser, address, "ada_similarity", run__embedding="small", do="next")
    assert f"Receives rows {server.root.removeprefix('http://')}" in text_of(page)
    uid = send(browser, f"{address}/submit").url.path.rsplit("/", 1)[1]
    with Store(path) as store:
        wait(lambda: store.run(uid).state in ("finished", "failed"))
        assert store.run(uid).config["embedding"]["api_key_env"] == "STUDIO_TEST_KEY"
        assert "OPENAI_API_KEY" not in str([each.reason for each in store.run(uid).scores()])
    assert "small" in text_of(send(browser, f"/runs/{uid}/duplicate"))


def test_inputs_of_a_target_and_fields_of_own_evaluators_are_mapped(path: Path, tmp_path: Path) -> None:
    (tmp_path / "aimed.py").write_text(
        "def answer(question, style, tone='flat'):\n    return f'{style} {tone} {question}'\n"
        "def rated(answer, rubric):\n    return float(rubric in answer)\n"
    )
    registry = read_registry({"targets": {"aimed": f"{tmp_path}/aimed.py:answer"},
                              "evaluators": {"rated": f"{tmp_path}/aimed.py:rated"}})  # fmt: skip
    browser = client(path, registry=registry)
    address = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    send(browser, f"{address}/basics", {"scenario": "qa", "source": "target", "target": "aimed"})
    content = b"question,kind_of_style,wanted,ground_truth\nWho?,short,short,x\nWhat?,long,Why,y\n"
    page = send(browser, f"{address}/data", {"do": "load"}, files={"file": ("rows.csv", content)})
    assert "Inputs of the target" in text_of(page) and "Use kind_of_style" in text_of(page)
    assert text_of(page).count("the target has a default") == 1  # of tone
    page = send(browser, f"{address}/metrics", {"metric": "rated"})
    assert "Off: rubric is not mapped." in text_of(page)
    mapped = {"map-rubric": "${data.wanted}"}
    send(browser, f"{address}/data", {"do": "use:style:kind_of_style", **mapped})
    mapped |= {"map-style": "${data.kind_of_style}", "map-nothing": "${data.wanted}"}
    page = send(browser, f"{address}/data", {"do": "next", **mapped})
    assert page.url.path == f"{address}/metrics"
    for metric, fields in (("exact_match", {"style": "${data.kind_of_style}"}),
                           ("rated", {"style": "${data.kind_of_style}", "rubric": "${data.wanted}"})):  # fmt: skip
        page = settle(browser, address, metric, do="next")
        assert page.url.path == f"{address}/review", text_of(page)
        texts = [unescape(each) for each in re.findall(r'<pre tabindex="0">(.*?)</pre>', page.text, re.DOTALL)]
        assert yaml.safe_load(texts[0])["data_mapping"] == fields
    uid = send(browser, f"{address}/submit").url.path.rsplit("/", 1)[1]
    with Store(path) as store:
        wait(lambda: store.run(uid).state in ("finished", "failed"))
        run = store.run(uid)
        assert [row.outputs["answer"] for row in run.rows()] == ["short flat Who?", "long flat What?"]
        assert [score.value for score in run.scores()] == [1.0, 0.0]
    copy = send(browser, f"/runs/{uid}/duplicate")
    assert "This cannot be submitted yet." not in text_of(copy) and "${data.kind_of_style}" in text_of(copy)


def test_a_copy_says_what_it_lost(path: Path, tmp_path: Path) -> None:
    browser = client(path)
    evaluators = [
        {"name": "own", "source": "prompt"},
        {"name": "code", "source": "custom", "origin": "a:b"},
        {"name": "mine", "source": "library", "origin": "mine@1"},
        {"name": "f1_score", "source": "builtin"},
    ]
    config = {
        "version": 1,
        "task_type": "qa",
        "evaluators": evaluators,
        "target": {"name": "shop<b>"},
        "metric_params": {"gpt_fluency": {"prompts": {"a": "b"}}},
        "data": {"hash": "0", "source": "a"},
    }
    with Store(path) as store:
        uid = store.create_run("old", config).id
    page = send(browser, f"/runs/{uid}/duplicate")
    for words in ("own is a prompt file, and is left out.", "code is code that is not registered",
                  "mine is the newest version now; the run had mine@1.", "The target shop&lt;b&gt; is not registered",
                  "prompts of gpt_fluency cannot be set in a form"):  # fmt: skip
        assert words in text_of(page)
    assert "shop<b>" not in page.text


def test_the_cost_of_answers_is_a_metric_where_prices_are_known(path: Path, server: ChatServer, tmp_path: Path) -> None:
    judge = {"model": "stub", "base_url": server.url, "api_key_env": "STUDIO_TEST_KEY"}
    prices = {"prompt": 1000, "completion": 1000, "currency": "EUR"}
    registry = read_registry({
        "judges": {"priced": {**judge, "prices": prices}},
        "targets": {"small": {"model": "small", "base_url": server.url, "prompt": "{{ question }}"}},
    })  # fmt: skip
    browser = client(path, registry=registry)
    address = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    send(browser, f"{address}/basics", {"scenario": "qa", "source": "target", "target": "small"})
    send(browser, f"{address}/data", {"do": "load"}, files={"file": ("rows.csv", CSV)})
    page = send(browser, f"{address}/metrics", {"metric": "cost"})
    off = "Off: Needs prices of the target: no answer has a cost without them."
    assert off in text_of(page), re.findall(r"Off: [^.]*", text_of(page))
    page = settle(browser, address, "gpt_coherence", judge="priced", do="save")
    assert off not in text_of(page) and "EUR" in text_of(page)
