"""The samples of Azure's guide to the SDK as they are printed there, with the comma that they lack."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.evaluation.proof.scripted import ScriptedJudge
from tests.judge.server import Request
from valor_gpu.errors import InputError

pytest.importorskip("openai")

WITH_FLOW = """
result = evaluate( 
    evaluation_name="my-qa-eval-with-flow", #name your evaluation to view in AI studio
    target=myflow, # pass in a flow that you want to run then evaluate results on 
    data=mydata, # data to be evaluated
    task_type="qa", # for different task types, different metrics are available
    metrics_list=["gpt_groundedness","gpt_relevance","gpt_coherence","gpt_fluency","gpt_similarity"], #optional superset over default set of metrics
    model_config= { #for AI-assisted metrics, need to hook up AOAI GPT model for doing the measurement
            "api_version": "2023-05-15",
            "api_base": os.getenv("OPENAI_API_BASE"),
            "api_type": "azure",
            "api_key": os.getenv("OPENAI_API_KEY"),
            "deployment_id": os.getenv("AZURE_OPENAI_EVALUATION_DEPLOYMENT")
    },
    data_mapping={
        "questions":"question", #column of data providing input to model
        "contexts":"context", #column of data providing context for each input
        "y_test":"groundtruth" #column of data providing ground truth answer, optional for default metrics
        },
    output_path="./myevalresults", #optional: save output artifacts to local folder path 
    tracking_uri=client.tracking_uri #optional: if configured with AI client, evaluation gets logged to AI Studio
)
"""  # noqa: E501
WITH_DATA = (
    WITH_FLOW.replace("-flow", "-data")
    .replace(
        "    target=myflow, # pass in a flow that you want to run then evaluate results on \n",
        "",
    )
    .replace(
        '        "y_test"', '        "y_pred":"answer", #column of data providing output from model\n        "y_test"'
    )
)
CHAT = """
result = evaluate(
    data=mydata,
    model_config=model_config,
task_type="chat",
data_mapping={
        "y_pred":"messages", #key name of chat payload format that corresponds to each turn of the conversation if data with model generated output is provided without a target
        }
)
"""  # noqa: E501
METRICS = ["gpt_groundedness", "gpt_relevance", "gpt_coherence", "gpt_fluency", "gpt_similarity"]
MEANS = {"gpt_groundedness": 4.8, "gpt_relevance": 3.7, "gpt_coherence": 4.1, "gpt_fluency": 5, "gpt_similarity": 1}
"""Of ten rows; the first three are printed in the guide."""
ROW = {
    "question": "What is the capital of France?",
    "context": "France is in Europe",
    "answer": "Paris is the capital of France.",
    "ground_truth": "Paris",
}


def numbered(i: int) -> dict[str, str]:
    return {**ROW, "question": f"{ROW['question']} ({i})", "context": f"{ROW['context']} ({i})"}


def rows_file(folder: Path, answers: bool) -> Path:
    rows = [numbered(i) for i in range(10)]
    kept = [row if answers else {k: v for k, v in row.items() if k != "answer"} for row in rows]
    path = folder / "mydata.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in kept))
    return path


def score(name: str, request: Request) -> float:
    """Scores of ten rows whose mean is the printed one."""
    total = round(10 * MEANS[name])
    low, more = divmod(total, 10)
    row = int(re.findall(r"\((\d)\)", request.text)[0])
    return low + (row < more)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the samples take as given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VALOR_GPU_STORE", str(tmp_path / "store.sqlite"))
    space: dict[str, Any] = {"client": SimpleNamespace(tracking_uri=None)}
    exec("import os\nfrom valor_gpu import evaluate", space)  # in place of the guide's own import
    return space


def run_sample(code: str, world: dict[str, Any], monkeypatch: pytest.MonkeyPatch, judge: ScriptedJudge) -> Any:
    monkeypatch.setenv("OPENAI_API_BASE", judge.root)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-sample")
    monkeypatch.setenv("AZURE_OPENAI_EVALUATION_DEPLOYMENT", "gpt-4-eval")
    exec(code, world)
    return world["result"]


def check_qa(result: Any, judge: ScriptedJudge, folder: Path) -> None:
    assert result.metric_summary == pytest.approx({f"mean_{name}": MEANS[name] for name in METRICS})
    assert result.metrics_summary == result.metric_summary
    assert judge.asked == dict.fromkeys(METRICS, 10)
    assert {request.path for request in judge.requests} == {
        "/openai/deployments/gpt-4-eval/chat/completions?api-version=2023-05-15"
    }
    assert next(iter(result.artifacts)) == "eval_results.jsonl"
    written = [json.loads(line) for line in (folder / "myevalresults" / "eval_results.jsonl").read_text().splitlines()]
    first = {name: written[0][name] for name in (*ROW, *METRICS)}
    assert first == {**numbered(0), **{name: score_of_first(name) for name in METRICS}}
    result.download_evaluation_artifacts("./elsewhere")
    assert (folder / "elsewhere" / "eval_results.jsonl").read_bytes() == (
        folder / "myevalresults" / "eval_results.jsonl"
    ).read_bytes()
    assert result.studio_url is None or result.studio_url.startswith("http://127.0.0.1")


def score_of_first(name: str) -> float:
    low, more = divmod(round(10 * MEANS[name]), 10)
    return low + (more > 0)


def test_sample_with_a_flow(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world |= {"mydata": str(rows_file(tmp_path, False)), "myflow": lambda question: {"answer": ROW["answer"]}}
    with ScriptedJudge(score) as judge, pytest.warns(UserWarning, match="groundtruth"):
        check_qa(run_sample(WITH_FLOW, world, monkeypatch, judge), judge, tmp_path)


def test_sample_with_data(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world["mydata"] = str(rows_file(tmp_path, True))
    with ScriptedJudge(score) as judge, pytest.warns(UserWarning, match="groundtruth"):
        check_qa(run_sample(WITH_DATA, world, monkeypatch, judge), judge, tmp_path)


@pytest.mark.parametrize("code", [WITH_FLOW, WITH_DATA])
def test_address_of_azure_fails_before_the_first_row(
    code: str, world: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    address = "azureml://eastus.api.azureml.ms/mlflow/v1.0/subscriptions/x"
    world |= {"mydata": str(rows_file(tmp_path, True)), "client": SimpleNamespace(tracking_uri=address)}
    world["myflow"] = lambda question: asked.append(question) or {"answer": "x"}
    with ScriptedJudge(score) as judge, pytest.raises(InputError, match=r"tracking_uri .*azureml.*None"):
        run_sample(code, world, monkeypatch, judge)
    assert not asked and not judge.requests and not (tmp_path / "myevalresults").exists()


def turn(role: str, content: str, *documents: str) -> dict[str, Any]:
    context: dict[str, Any] = {"citations": [{"id": f"{i}.md", "content": text} for i, text in enumerate(documents)]}
    more = {"session_state": {"id": "1234-5678-9012-3456"}, "context": {"customer_info": "name: Jane Doe"}}
    return {"content": content, "role": role, **({"context": context} if documents else more)}


CONVERSATION = [
    turn("user", "will my compass work in patagonia"),
    turn("assistant", "Yes, the Pathfinder Pro-1 can be used in Patagonia.", "Pathfinder Pro-1 Adventure Compass"),
    turn("user", "and what is the temperature rating of my sleeping bag?"),
    turn("assistant", "The CozyNights Sleeping Bag: 20°F to 60°F", "CozyNights Sleeping Bag, price $100"),
    turn("user", "Awesome, thanks!"),
    turn("assistant", "You are welcome, Jane!", "Order Number: 5"),
]
TURNS = {"gpt_retrieval_score": (3, 2, 1), "gpt_groundedness": (5, 5, 1), "gpt_relevance": (5, 5, 1)}


def test_sample_of_a_conversation(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def rate(name: str, request: Request) -> float:
        asked = [part for part in ("patagonia", "temperature rating", "Awesome") if part in request.text]
        return TURNS[name][("patagonia", "temperature rating", "Awesome").index(asked[-1])]

    with ScriptedJudge(rate) as judge:
        world |= {"mydata": [{"messages": CONVERSATION}], "model_config": judge.config}
        result = run_sample(CHAT, world, monkeypatch, judge)
    assert result.metrics_summary == {
        "mean_gpt_groundedness": pytest.approx(11 / 3),
        "mean_gpt_relevance": pytest.approx(11 / 3),
        "mean_gpt_retrieval_score": 2.0,
    }
    result.download_evaluation_artifacts(tmp_path / "out")
    (row,) = (json.loads(line) for line in (tmp_path / "out" / "eval_results.jsonl").read_text().splitlines())
    assert row["messages"] == CONVERSATION
    printed = {"gpt_retrieval_score": 2, "gpt_groundedness": 3.6666666667, "gpt_relevance": 3.6666666667}
    assert {name: round(row[name], 10) for name in printed} == printed
    assert {
        name: [one["score"] if "score" in one else one["value"] for one in turns]
        for name, turns in row["evaluation_per_turn"].items()
    } == {name: list(map(float, turns)) for name, turns in TURNS.items()}
