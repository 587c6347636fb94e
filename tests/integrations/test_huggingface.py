"""``compute_metrics`` of a Trainer: its calls played by hand, and a real one where accelerate is installed."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.functional.classification as peer

from tests.integrations.scenes import Scene, coco_stats, make_scene
from valor_gpu.classification import Accuracy, F1Score
from valor_gpu.detection import MeanAveragePrecision, coco_targets
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.integrations.huggingface import DetrInputs, TrainerMetrics

LOGITS = torch.randn(40, 5, generator=torch.Generator().manual_seed(3))
LABELS = torch.randint(5, (40,), generator=torch.Generator().manual_seed(4))


def prediction(predictions: Any, labels: Any) -> SimpleNamespace:
    return SimpleNamespace(predictions=predictions, label_ids=labels)


def both() -> TrainerMetrics:
    return TrainerMetrics({"accuracy": Accuracy(num_classes=5), "f1": F1Score(num_classes=5, average="macro")})


def expected() -> dict[str, float]:
    return {
        "accuracy": float(peer.multiclass_accuracy(LOGITS, LABELS, 5, average="micro")),
        "f1": float(peer.multiclass_f1_score(LOGITS, LABELS, 5)),
    }


def test_batches_and_everything_at_once_give_torchmetrics_numbers_again_and_again() -> None:
    metric = Accuracy(num_classes=5)
    assert TrainerMetrics(metric) and metric.sync_on_compute is False  # Trainer gathers, and every process has all
    compute = both()
    for _ in range(2):  # the second evaluation must not hold the first
        assert compute(prediction(LOGITS[:16], LABELS[:16]), compute_result=False) == {}
        assert compute(prediction(LOGITS[16:], LABELS[16:]), compute_result=True) == pytest.approx(expected())
    assert compute(prediction(LOGITS.numpy(), LABELS.numpy())) == pytest.approx(expected())
    parts = prediction([LOGITS[:7].numpy(), LOGITS[7:].numpy()], [LABELS[:7].numpy(), LABELS[7:].numpy()])
    assert compute(parts) == pytest.approx(expected())  # eval_do_concat_batches=False
    assert compute.results["accuracy"].counts["samples"] == 40


def test_tokens_are_rows_and_padding_is_left_out() -> None:
    logits, labels = LOGITS.reshape(4, 10, 5), LABELS.reshape(4, 10).clone()
    labels[:, 7:] = -100
    compute = TrainerMetrics(Accuracy(num_classes=5, ignore_index=-100))
    want = peer.multiclass_accuracy(logits[:, :7].reshape(-1, 5), labels[:, :7].reshape(-1), 5, average="micro")
    assert compute(prediction((logits, "hidden states"), labels)) == {"Accuracy": pytest.approx(float(want))}


def test_a_batch_that_fails_leaves_nothing_to_the_next_evaluation() -> None:
    compute = both()
    compute(prediction(LOGITS[:16], LABELS[:16]), compute_result=False)
    with pytest.raises(InputError, match="target"):
        compute(prediction(LOGITS[16:], LABELS[16:] + 9), compute_result=False)
    assert compute(prediction(LOGITS, LABELS)) == pytest.approx(expected())


def test_what_is_no_metric_of_this_library_is_named() -> None:
    import torchmetrics

    with pytest.raises(InputTypeError, match=r"metrics\['a'\] must be a metric of valor_gpu, which has a result\(\)"):
        TrainerMetrics({"a": torchmetrics.MeanMetric()})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="metrics must hold at least one metric but is empty"):
        TrainerMetrics({})


def processor_labels(scene: Scene) -> list[dict[str, torch.Tensor]]:
    """What an image processor makes of annotations: no crowds, centres in fractions."""
    return [
        {
            "class_labels": torch.tensor([row["category_id"] for row in rows], dtype=torch.int64),
            "boxes": scene.centres([row["bbox"] for row in rows], image).float(),
            "orig_size": torch.tensor([image["height"], image["width"]]),
            "image_id": torch.tensor([image["id"]]),
        }
        for image, rows in ((i, [a for a in scene.of(i["id"]) if not a["iscrowd"]]) for i in scene.images)
    ]


def detr_outputs(scene: Scene, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(5)
    boxes = [scene.centres([row["bbox"] for row in scene.of(image["id"])], image) for image in scene.images]
    queries = torch.rand(len(boxes), 30, 4, generator=draw) * 0.3 + 0.1
    for image, known in enumerate(boxes):
        queries[image, : len(known)] = known.float() + 0.004 * torch.randn(known.shape, generator=draw)
    return torch.randn(len(boxes), 30, classes, generator=draw) * 3, queries


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
def test_detr_with_exact_targets_has_the_bits_of_pycocotools(activation: str, tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    logits, boxes = detr_outputs(scene, 4)
    metric = MeanAveragePrecision(box_format="xywh")
    compute = TrainerMetrics(metric, DetrInputs(activation=activation, targets=coco_targets(scene.file)))
    labels = processor_labels(scene)
    outputs = ({"loss_ce": torch.tensor(0.0)}, logits, boxes)
    compute(prediction(tuple(each[:3] if hasattr(each, "shape") else each for each in outputs), labels[:3]), False)
    numbers = compute(prediction((logits[3:], boxes[3:]), labels[3:]), True)
    stats = coco_stats(scene, found(scene, logits, boxes, activation))
    names = ("map", "map_50", "map_75", "map_small", "map_medium", "map_large")
    assert stats[0] > 0.02
    assert [numbers[name] for name in names] == stats[:6]


def found(scene: Scene, logits: torch.Tensor, boxes: torch.Tensor, activation: str) -> list[dict[str, Any]]:
    """Results as COCO's, query by query."""
    rows = []
    for image, all_scores, queries in zip(scene.images, logits, boxes.double().numpy()):
        chances = all_scores.sigmoid() if activation == "sigmoid" else all_scores.softmax(0)
        if activation == "softmax":
            chances = all_scores.softmax(1)[:, :3]
            pairs = [(q, int(row.argmax())) for q, row in enumerate(chances)]
        else:
            pairs = [(q, k) for q in range(30) for k in range(4)]
        pairs = sorted(pairs, key=lambda pair: -float(chances[pair]))[:100]
        scale = np.array([image["width"], image["height"]], np.float64)
        for query, kind in pairs:
            centre, size = queries[query, :2] * scale, queries[query, 2:] * scale
            box = [*(centre - size / 2).tolist(), *size.tolist()]
            score = float(chances[query, kind])
            rows.append({"image_id": image["id"], "category_id": kind, "bbox": box, "score": score})
    return rows


def test_detr_with_the_labels_of_a_processor(tmp_path: Path) -> None:
    """Without targets: as if the crowds were not there."""
    scene = make_scene(tmp_path)
    logits, boxes = detr_outputs(scene, 4)
    compute = TrainerMetrics(MeanAveragePrecision(box_format="xywh"), DetrInputs())
    numbers = compute(prediction((logits, boxes), processor_labels(scene)))
    scene.annotations = [row for row in scene.annotations if not row["iscrowd"]]
    scene.write()
    stats = coco_stats(scene, found(scene, logits, boxes, "sigmoid"))
    assert numbers["map"] == pytest.approx(stats[0], abs=2e-3)  # float32 fractions move boxes near a threshold


def test_detections_that_trainer_gathered_image_by_image(tmp_path: Path) -> None:
    """As of two processes, of three images each, that ``eval_use_gather_object=True`` makes one list."""
    scene = make_scene(tmp_path)
    logits, boxes = detr_outputs(scene, 4)
    labels, inputs = processor_labels(scene), DetrInputs(targets=coco_targets(scene.file))
    compute = TrainerMetrics(MeanAveragePrecision(box_format="xywh"), inputs)
    parts = [inputs.preprocess((logits[rows], boxes[rows]), labels[rows]) for rows in (slice(3), slice(3, None))]
    gathered = compute(prediction(parts[0] + parts[1], labels))
    whole = compute(prediction((logits, boxes), labels))
    assert gathered == pytest.approx(whole, abs=0, rel=0, nan_ok=True) and gathered["map"] > 0.02
    with pytest.raises(InputTypeError, match="got list; several processes need preprocess_logits_for_metrics="):
        inputs([{}, logits, boxes, {}, logits, boxes][1:], labels)


def test_labels_that_trainer_has_mixed_up_are_named(tmp_path: Path) -> None:
    scene = make_scene(tmp_path)
    logits, boxes = detr_outputs(scene, 4)
    labels = processor_labels(scene)
    with pytest.raises(InputError, match=r"labels must be 6 dicts.*got 2 items of type dict; give the Trainer"):
        DetrInputs()((logits, boxes), labels[:2])
    with pytest.raises(InputError, match=r"begin with logits \[B, Q, K\] and pred_boxes .* got \[\(6, 30, 4\)\]"):
        DetrInputs()((logits,), labels)
    with pytest.raises(InputError, match="targets must have every image_id of the labels but lacks"):
        DetrInputs(targets={})((logits, boxes), labels)
    with pytest.raises(InputError, match="activation must be"):
        DetrInputs(activation="relu")


@pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="Trainer needs accelerate")
@pytest.mark.parametrize("by_batch", [True, False])
def test_a_trainer_evaluates(by_batch: bool, tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))

        def forward(self, features: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
            logits = features * self.scale
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    rows = [{"features": x, "labels": y} for x, y in zip(LOGITS, LABELS)]
    options = TrainingArguments(
        str(tmp_path), per_device_eval_batch_size=16, batch_eval_metrics=by_batch, report_to=[], use_cpu=True,
        num_train_epochs=1, eval_strategy="epoch", save_strategy="no", learning_rate=0.0, disable_tqdm=True,
    )  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        trainer = Trainer(Model(), options, train_dataset=rows, eval_dataset=rows, compute_metrics=both())
        trainer.train()
        numbers = trainer.evaluate()
    assert {name: numbers[f"eval_{name}"] for name in expected()} == pytest.approx(expected())
    assert json.dumps(numbers)


def tiny_rt_detr() -> Any:
    from transformers import RTDetrConfig, RTDetrForObjectDetection, RTDetrResNetConfig

    torch.manual_seed(0)
    backbone = RTDetrResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    config = RTDetrConfig(
        backbone_config=backbone, encoder_hidden_dim=16, encoder_in_channels=[8, 16, 16], encoder_ffn_dim=16,
        d_model=16, decoder_in_channels=[16, 16, 16], decoder_ffn_dim=16, num_queries=30,
        decoder_layers=1, num_labels=4, encoder_attention_heads=2,
        decoder_attention_heads=2, num_denoising=0, anchor_image_size=None,
    )  # fmt: skip
    return RTDetrForObjectDetection(config).eval()


@pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="Trainer needs accelerate")
def test_a_trainer_evaluates_an_rt_detr(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    scene = make_scene(tmp_path)
    model = tiny_rt_detr()
    pixels = torch.rand(6, 3, 96, 96)
    with torch.no_grad():
        outputs = [model(pixels[:4]), model(pixels[4:])]
    logits, boxes = (torch.cat([getattr(each, name) for each in outputs]) for name in ("logits", "pred_boxes"))
    for index, row in enumerate(scene.annotations):  # an untrained model: the truth comes to it
        image = [each["id"] for each in scene.images].index(row["image_id"])
        scale = torch.tensor([scene.images[image]["width"], scene.images[image]["height"]])
        centre, size = (boxes[image, index % 30].reshape(2, 2) * scale).double()
        row["bbox"] = [*(centre - size * (0.5 - 0.003 * (index % 9))).tolist(), *size.tolist()]
        row["category_id"] = int(logits[image, index % 30, :3].argmax())
    scene.write()
    rows = [{"pixel_values": p, "labels": label} for p, label in zip(pixels, processor_labels(scene))]

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {"pixel_values": torch.stack([r["pixel_values"] for r in rows]), "labels": [r["labels"] for r in rows]}

    options = TrainingArguments(
        str(tmp_path), per_device_eval_batch_size=4, batch_eval_metrics=True, report_to=[], use_cpu=True,
        remove_unused_columns=False, disable_tqdm=True,
    )  # fmt: skip
    compute = TrainerMetrics(MeanAveragePrecision(box_format="xywh"), DetrInputs(targets=coco_targets(scene.file)))
    trainer = Trainer(model, options, eval_dataset=rows, data_collator=collate, compute_metrics=compute)
    with contextlib.redirect_stdout(io.StringIO()):
        numbers = trainer.evaluate()
    stats = coco_stats(scene, found(scene, logits, boxes, "sigmoid"))
    assert 0.01 < stats[0] < 1
    assert [numbers[f"eval_{name}"] for name in ("map", "map_50", "mar_100")] == [stats[0], stats[1], stats[8]]
