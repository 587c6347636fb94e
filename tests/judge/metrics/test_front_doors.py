"""Names of users, valor_gpu.text.judged and valor_gpu.evaluation.judged: old modules are read, old pickles load."""

from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from valor_gpu.judge.metrics import prompts
from valor_gpu.judge.metrics.table import RATINGS
from valor_gpu.text import judged

OLD = {
    "valor_gpu.text.judged": {
        "answers": ("AnswerCorrectness", "AnswerRelevance"),
        "coherence": ("Coherence", "SummaryCoherence"),
        "contexts": ("ContextPrecision", "ContextRecall", "ContextRelevance"),
        "evaluate": ("JudgedTexts", "evaluate_texts", "evaluate_texts_async"),
        "grounding": ("Faithfulness", "Hallucination"),
        "metric": ("PromptedMetric",),
        "opinions": ("Bias", "Toxicity"),
        "prompts": ("Prompt", "load_prompt", "load_prompts", "prompt_names"),
        "rules": ("TextRow", "TextRules"),
    },
    "valor_gpu.evaluation.judged": {
        "conversation": ("Conversation", "read_conversation"),
        "fields": ("JudgedTexts",),
        "guard": ("GuardMetric", "guarded_messages"),
        "make": ("judged_metric",),
        "metric": ("PromptMetric", "RowMetric"),
        "preference": ("PreferenceCounts", "PreferenceMetric", "preference_counts"),
        "ratings": ("RatingMetric",),
        "scores": ("JudgedScore", "NoScore", "judged_outcome", "mean_of_scored"),
        "severity": ("DefectRate", "defect_rate", "jailbreak_defect_rate", "severity_level"),
        "table": ("Rating", "ValorRating"),
        "valor": ("ValorMetric",),
    },
}
PLACES = [(door, module, name) for door, homes in OLD.items() for module, names in homes.items() for name in names]


@pytest.mark.parametrize(("door", "module", "name"), PLACES)
def test_pickles_of_old_modules_load(door: str, module: str, name: str) -> None:
    data = f"c{door}.{module}\n{name}\n."
    assert pickle.loads(data.encode()) is getattr(importlib.import_module(door), name)


@pytest.mark.parametrize("door", OLD)
def test_a_process_that_has_imported_nothing_reads_them(door: str) -> None:
    data = [f"c{place}.{module}\n{name}\n." for place, module, name in PLACES if place == door]
    program = f"import pickle\nfor one in {data!r}: pickle.loads(one.encode())"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("value", [judged.TextRow("Why?", "So."), judged.load_prompt("bias"), judged.Bias()])
def test_objects_can_be_pickled(value: object) -> None:
    assert repr(pickle.loads(pickle.dumps(value))) == repr(value)
    assert pickle.loads(pickle.dumps(RATINGS)) == RATINGS


def test_every_file_of_the_folder_is_of_a_family_with_a_system_message() -> None:
    files = {path.name for path in (Path(prompts.__file__).parent / "prompts").iterdir()}
    families = {family: (*judged.prompt_names(family), "system") for family in ("valor", "rating")}
    assert files == {f"{family}_{name}.md" for family, names in families.items() for name in names}
    assert judged.load_prompt("coherence") != judged.load_prompt("coherence", "rating")


def test_a_folder_of_the_users_own_has_names_without_family(tmp_path: Path) -> None:
    for name in ("system", "valor_tone"):
        (tmp_path / f"{name}.md").write_text(f"version: 4\n---\n{name} {{{{text}}}}\n")
    assert judged.prompt_names(tmp_path) == ["valor_tone"]
    assert judged.load_prompt("valor_tone", folder=tmp_path).id.startswith("valor_tone/4/")
