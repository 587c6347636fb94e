"""The services of a run: target, judge and embedding model, with their secrets. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.config import embedding_config_of, model_config_of, without_connection
from valor_gpu.evaluation.engine.settings import CONCURRENCY, TARGET_TIMEOUT, Settings
from valor_gpu.evaluation.models import connection_facts, embed_from_config, judge_from_config
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets import Target, open_target, target_from_config
from valor_gpu.judge.endpoint import openai_package
from valor_gpu.judge.openai import OpenAIJudge
from valor_gpu.judge.protocol import Judge
from valor_gpu.text.served_embedding import OpenAIEmbedder

if TYPE_CHECKING:
    from valor_gpu.evaluation.engine.metrics import RunEvaluator


@dataclass(frozen=True)
class Services:
    """Services of a run.

    Attributes:
        secrets: masked in everything that is stored or shown.
        judge, embed, target: None where there is none.
    """

    secrets: Secrets
    judge: Judge | None = None
    embed: Callable[..., Any] | None = None
    target: Target | None = None

    @property
    def outputs(self) -> Sequence[str] | None:
        """Outputs that the target declares; None without a target."""
        return None if self.target is None else self.target.outputs


def open_services(settings: Settings) -> Services:
    """Opens the services that the arguments name.

    Raises:
        InputError: a target, judge or embedder that cannot be.
    """
    secrets = Secrets()
    judge = _judge(settings, secrets)
    embed = None
    if settings.embedding_config is not None:
        embed = embed_from_config(settings.embedding_config, secrets=secrets)
        if isinstance(embed, OpenAIEmbedder):
            openai_package("the model of embeddings")
    target = None
    if settings.target is not None:
        target = open_target(settings.target, secrets=secrets, parameters=settings.parameters, **_options(settings))
    return Services(secrets, judge, embed, target)


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "timeout": TARGET_TIMEOUT if settings.timeout is None else settings.timeout,
        "prices": settings.prices,
        "max_concurrency": settings.max_concurrency or CONCURRENCY,
    }


def _judge(settings: Settings, secrets: Secrets) -> Judge | None:
    if settings.judge is not None and settings.model_config is not None:
        raise InputError("judge and model_config both give the judge: give one of them")
    if settings.judge is not None:
        return judge_from_config(settings.judge, secrets=secrets, name="judge")
    return None if settings.model_config is None else judge_from_config(settings.model_config, secrets=secrets)


def judge_identity(judge: Judge | None) -> dict[str, Any] | None:
    """Returns the facts that decide the replies of a judge and the facts of its connection, without secrets."""
    if judge is None:
        return None
    identity = judge.identity
    if identity is None:
        function = getattr(judge, "_function", judge)
        identity = {"kind": "callable", "name": getattr(function, "__qualname__", type(function).__name__)}
    return {**identity, **connection_facts(judge)}


def check_judge(evaluators: Sequence[RunEvaluator], judge: Judge | None, settings: Settings) -> None:
    """Raises unless judged metrics have a judge that can be asked, and a limit of cost has prices.

    Raises:
        InputError: there is no judge, or there are no prices.
        MissingExtraError: the judge needs a package that is not installed.
    """
    judged = [each.name for each in evaluators if each.judged]
    if judged and judge is None:
        raise InputError(f"model_config or judge must be given, since a judge decides {', '.join(judged)}")
    if judged and isinstance(judge, OpenAIJudge):
        openai_package("the judge")
    if settings.max_cost is not None and judged and settings.token_prices(judge) is None:
        raise InputError("max_cost must come with prices, of a million tokens of the judge's model")


def services_again(config: Mapping[str, Any], settings: Settings, needs_judge: bool) -> Services:
    """Opens the services of a stored run, from its configuration or from the arguments.

    Raises:
        InputError: what cannot be made again and is not given, or what is another now.
    """
    given = open_services(settings)
    target, judge, embed = given.target, given.judge, given.embed
    if config.get("target") is not None and target is None:
        target = target_from_config(config["target"], secrets=given.secrets, **_options(settings))
    if target is not None and config.get("target") is None:
        raise InputError("target must not be given, since the run has none")
    if target is not None and target.version != config["target"]["version"]:
        raise InputError(
            f"target {target.name!r} must be the run's, of version {config['target']['version']}, but is of version"
            f" {target.version}: start a new run for what has changed"
        )
    if target is not None:
        target.map_columns(config.get("data_mapping"), (config.get("data") or {}).get("columns") or ())
    if judge is None and needs_judge and config.get("judge") is not None:
        judge = judge_from_config(model_config_of(config["judge"]), secrets=given.secrets)
    if embed is None and config.get("embedding") is not None:
        embed = embed_from_config(embedding_config_of(config["embedding"]), secrets=given.secrets)
    if judge is not None and needs_judge:
        before, now = without_connection(config.get("judge")), without_connection(judge_identity(judge))
        if now != before:
            raise InputError(f"judge must be the run's, {before}, but is {now}: start a new run for another judge")
    return Services(given.secrets, judge, embed, target)
