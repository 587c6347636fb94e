"""Drafts that say what a run was made of, as far as forms can say it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from valor_gpu.judge.addresses import CHAT, EMBEDDINGS
from valor_gpu.store import Run
from valor_gpu.web.model_names import address_of, model_of
from valor_gpu.web.registry import Registry
from valor_gpu.web.wizard.drafts import Draft
from valor_gpu.web.wizard.form_settings import RUN_OPTIONS, text_of


def draft_of_run(run: Run, registry: Registry) -> Draft:
    """A draft that says what a run was made of, as far as forms can say it."""
    config = run.config
    metrics = [each["name"] for each in config["evaluators"] if _can_choose(each, registry)]
    target, judge = config.get("target") or {}, config.get("judge") or {}
    fields_ = config.get("data_mapping") or {}
    scenario = "chat" if config["task_type"] == "chat" else "context" if "context" in fields_ else "qa"
    name = _target_of(target, registry)
    sets = registry.targets[name]["variants"] if name else {}
    thresholds = config.get("thresholds") or {}
    levels = [value for value in thresholds.values() if isinstance(value, str)]
    numbers = {name: f"{value:.15g}" for name, value in thresholds.items() if not isinstance(value, str)}
    return Draft(
        name=f"{run.name} (copy)"[:200],
        scenario=scenario,
        target=name,
        variants=tuple(each for each, said in sets.items() if said == config.get("parameters")),
        data=str((config.get("data") or {}).get("hash", "")),
        mapping={name: text for name, text in fields_.items() if text != "${target}"},
        metrics=tuple(str(each) for each in metrics if each),
        judge=next((name for name, said in registry.judges.items() if _is_judge(said, judge)), ""),
        level=levels[0] if levels else "Medium",
        is_target_only=bool(target) and not metrics,
        settings=_settings_of(config, registry),
        passes=numbers,
        options=_options_of(config),
        slice_by=tuple(config.get("slice_by") or ()),
        baseline=str(config.get("baseline") or ""),
        embedding=_embedding_of(config.get("embedding") or {}, registry),
        keep_prompts=config.get("keep_prompts") is not False,
        lost=tuple(_lost(config, name, registry)),
    )


def _can_choose(each: Mapping[str, Any], registry: Registry) -> bool:
    """Whether forms can choose an evaluator of a run: not a prompt file, and not code that nobody registered."""
    if each["source"] == "custom":
        return bool(registry.evaluators.get(each["name"]) == each.get("origin"))
    return bool(each["source"] != "prompt")


def _lost(config: Mapping[str, Any], target: str, registry: Registry) -> Iterator[str]:
    """What a run had and forms cannot say."""
    for each in config["evaluators"]:
        if not _can_choose(each, registry):
            what = "a prompt file" if each["source"] == "prompt" else "code that is not registered"
            yield f"{each['name']} is {what}, and is left out."
        elif each["source"] == "library":
            yield f"{each['name']} is the newest version now; the run had {each.get('origin') or 'another one'}."
    if config.get("target") and not target:
        yield f"The target {(config['target'] or {}).get('name') or ''} is not registered: the draft has none."
    for name, params in (config.get("metric_params") or {}).items():
        dropped = [key for key, value in params.items() if not text_of(key, value, registry)]
        if dropped:
            yield f"{', '.join(dropped)} of {name} cannot be set in a form, and is left out."
    sets = registry.targets[target]["variants"] if target else {}
    if target and config.get("parameters") and config["parameters"] not in sets.values():
        yield "The parameters of the run are no registered variant of its target, and are left out."


def _settings_of(config: Mapping[str, Any], registry: Registry) -> dict[str, dict[str, str]]:
    """Parameters of metrics as they are typed."""
    found = {
        name: {key: text for key, value in params.items() if (text := text_of(key, value, registry))}
        for name, params in (config.get("metric_params") or {}).items()
    }
    return {name: texts for name, texts in found.items() if texts}


def _options_of(config: Mapping[str, Any]) -> dict[str, str]:
    given = {name: config.get(name) for name in RUN_OPTIONS}
    usual = {"repeats": 1, "epochs": 1}
    return {name: f"{value:.15g}" for name, value in given.items() if value is not None and value != usual.get(name)}


def _embedding_of(identity: Mapping[str, Any], registry: Registry) -> str:
    for name, said in registry.embeddings.items():
        if said.get("dimensions") == identity.get("dimensions") and _is_judge(said, identity):
            return name
    return ""


def _target_of(config: Mapping[str, Any], registry: Registry) -> str:
    """The registered target that a run asked."""
    for name, said in registry.targets.items():
        use = said["use"]
        same = use == config.get("origin") if isinstance(use, str) else False
        address = use if isinstance(use, str) else use.get("url")
        if config and (same or (address is not None and address == config.get("url"))):
            return name
        if isinstance(use, Mapping) and "model" in use and use["model"] == config.get("model"):
            return name
    return ""


def _is_judge(said: Mapping[str, Any], judge: Mapping[str, Any]) -> bool:
    """Whether a registered judge or model of embeddings is the one of a stored run."""
    model, address = model_of(said), address_of(said).rstrip("/")
    asked = str(judge.get("base_url", "")).rstrip("/")
    behind = address.removeprefix(asked)  # of an address that was pasted
    is_there = not address or behind in ("", CHAT, EMBEDDINGS) or (behind != address and behind.startswith("/openai/"))
    return bool(judge) and model == judge.get("model") and is_there
