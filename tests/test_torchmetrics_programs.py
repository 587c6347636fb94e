"""Programs as users of torchmetrics write them print the same after ``import valor_gpu as torchmetrics``."""

from __future__ import annotations

import contextlib
import io
import re
import warnings

import numpy as np
import pytest

LOOP = """
import torch
import torchmetrics

torch.manual_seed(1)
accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=5)
f1 = torchmetrics.F1Score("multiclass", num_classes=5, average="macro")
auroc = torchmetrics.AUROC(task="binary")
for epoch in range(2):
    for _ in range(3):
        preds, target = torch.randn(20, 5).softmax(-1), torch.randint(5, (20,))
        print(f"{accuracy(preds, target):.6f} {f1(preds, target):.6f}")
        auroc.update(preds[:, 0], target == 0)
    print(f"epoch {epoch}: {accuracy.compute():.6f} {f1.compute():.6f} {auroc.compute():.6f}")
    for metric in (accuracy, f1, auroc):
        metric.reset()
print(isinstance(accuracy, torchmetrics.Metric), type(accuracy).__name__)
"""

COLLECTION = """
import torch
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix, MulticlassPrecision

torch.manual_seed(2)
train = MetricCollection(
    [MulticlassAccuracy(num_classes=4), MulticlassPrecision(num_classes=4, average=None)], prefix="train/"
)
valid = train.clone(prefix="valid/")
valid.add_metrics({"confusion": MulticlassConfusionMatrix(4)})
for _ in range(3):
    train.update(torch.randint(4, (30,)), torch.randint(4, (30,)))
    valid.update(torch.randint(4, (30,)), torch.randint(4, (30,)))
print({name: value.tolist() for name, value in {**train.compute(), **valid.compute()}.items()})
print(sorted(valid.keys()), len(valid.compute_groups) < len(valid))
"""

TRACKER = """
import torch
import torchmetrics

torch.manual_seed(3)
tracker = torchmetrics.MetricTracker(
    torchmetrics.MetricCollection(
        {"accuracy": torchmetrics.Accuracy(task="binary"), "recall": torchmetrics.Recall(task="binary")}
    ),
    maximize=[True, True],
)
for epoch in range(4):
    tracker.increment()
    for _ in range(2):
        tracker.update(torch.rand(25), torch.randint(2, (25,)))
best, step = tracker.best_metric(return_step=True)
print({name: round(float(value), 6) for name, value in best.items()}, step, tracker.n_steps)
print([round(float(value), 6) for value in tracker.compute_all()["recall"]])
"""

FUNCTIONAL = """
import torch
import torchmetrics
import torchmetrics.functional as F
from torchmetrics.functional.classification import binary_auroc, multilabel_f1_score

torch.manual_seed(4)
preds, target = torch.rand(40, 3).softmax(-1), torch.randint(3, (40,))
print(F.accuracy(preds, target, task="multiclass", num_classes=3), F.auroc(preds, target, "multiclass", num_classes=3))
print(torchmetrics.functional.classification.multiclass_f1_score(preds, target, num_classes=3, average="weighted"))
print(binary_auroc(preds[:, 0], target == 0), torchmetrics.functional.precision(preds, target, "multiclass", 0.5, 3))
print(multilabel_f1_score(preds, torch.nn.functional.one_hot(target, 3), num_labels=3))
print(torchmetrics.functional.confusion_matrix(preds, target, task="multiclass", num_classes=3, normalize="true"))
"""

BOXES = """
import torch
import torchmetrics
from torchmetrics.detection.mean_ap import MeanAveragePrecision

preds = [
    {"boxes": torch.tensor([[10.0, 10.0, 50.0, 50.0], [60.0, 60.0, 90.0, 80.0]]),
     "scores": torch.tensor([0.9, 0.4]), "labels": torch.tensor([0, 1])},
    {"boxes": torch.tensor([[0.0, 0.0, 30.0, 36.5]]), "scores": torch.tensor([0.7]), "labels": torch.tensor([0])},
]
target = [
    {"boxes": torch.tensor([[12.0, 10.0, 50.0, 52.0]]), "labels": torch.tensor([0])},
    {"boxes": torch.tensor([[0.0, 2.0, 30.0, 30.0]]), "labels": torch.tensor([0])},
]
metric = MeanAveragePrecision(iou_type="bbox", class_metrics=True)
metric.update(preds, target)
for name, value in sorted(metric.compute().items()):
    print(name, value)
assert torchmetrics.detection.MeanAveragePrecision is MeanAveragePrecision
"""

TEXTS = """
import torchmetrics
from torchmetrics.functional.text import bleu_score
from torchmetrics.text.rouge import ROUGEScore

preds = ["the cat sat on the mat", "a dog barked loudly"]
target = ["a cat sat on the mat", "the dog barked"]
rouge = torchmetrics.text.rouge.ROUGEScore(rouge_keys=("rouge1", "rougeL"))
rouge.update(preds, target)
print({name: round(float(value), 5) for name, value in sorted(rouge.compute().items())})
print(round(float(torchmetrics.text.WordErrorRate()(preds, target)), 5), ROUGEScore is type(rouge))
print(round(float(torchmetrics.functional.text.wer.word_error_rate(preds, target)), 5))
print(round(float(bleu_score(preds, [[text] for text in target], n_gram=2)), 5))
print(round(float(torchmetrics.text.CHRFScore(n_word_order=0)(preds, [[text] for text in target])), 3))
"""

OWN_METRIC = """
import torch
from torch import Tensor
import torchmetrics
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

class Largest(torchmetrics.Metric):
    is_differentiable = False
    higher_is_better = True
    full_state_update = False

    def __init__(self, k: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.k = k
        self.add_state("values", default=[], dist_reduce_fx="cat")
        self.add_state("total", default=torch.tensor(0), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        self.values.append((preds - target).abs())
        self.total += target.numel()

    def compute(self) -> Tensor:
        return dim_zero_cat(self.values).topk(self.k).values.mean() / self.total

torch.manual_seed(5)
both = torchmetrics.MetricCollection({"largest": Largest(2), "accuracy": torchmetrics.Accuracy(task="binary")})
for _ in range(2):
    print({name: round(float(value), 6) for name, value in both(torch.rand(9), torch.randint(2, (9,))).items()})
print({name: round(float(value), 6) for name, value in both.compute().items()})
print([isinstance(metric, Metric) for metric in both.values()], Largest(1))
"""

WRAPPERS = """
import torch
import torchmetrics
from torchmetrics.aggregation import MeanMetric
from torchmetrics.wrappers import ClasswiseWrapper, MinMaxMetric, Running

torch.manual_seed(6)
loss, running = MeanMetric(), torchmetrics.RunningMean(window=2)
named = ClasswiseWrapper(torchmetrics.classification.MulticlassRecall(3, average=None), labels=["a", "b", "c"])
extremes = MinMaxMetric(torchmetrics.Accuracy(task="multiclass", num_classes=3))
last = Running(torchmetrics.Accuracy(task="multiclass", num_classes=3), window=2)
for step in range(4):
    preds, target = torch.rand(12, 3), torch.randint(3, (12,))
    loss.update(preds.sum()), running.update(preds.sum()), named.update(preds, target)
    last.update(preds, target)
    print({name: round(float(value), 6) for name, value in extremes(preds, target).items()})
print(round(float(loss.compute()), 5), round(float(running.compute()), 5), round(float(last.compute()), 6))
print({name: round(float(value), 6) for name, value in named.compute().items()})
"""

ARITHMETIC = """
import torch
import torchmetrics
from torchmetrics.metric import CompositionalMetric

torch.manual_seed(7)
precision, recall = torchmetrics.Precision(task="binary"), torchmetrics.Recall(task="binary")
mean = (precision + recall) / 2
preds, target = torch.rand(50), torch.randint(2, (50,))
mean.update(preds, target)
print(round(float(mean.compute()), 6), isinstance(mean, CompositionalMetric))

model = torch.nn.ModuleDict({"accuracy": torchmetrics.Accuracy(task="binary")})
model["accuracy"].persistent(True)
model["accuracy"].update(preds, target)
again = torch.nn.ModuleDict({"accuracy": torchmetrics.Accuracy(task="binary")})
again["accuracy"].persistent(True)
again.load_state_dict(model.state_dict())
print(round(float(again["accuracy"].compute()), 6))
for module in model.modules():
    if isinstance(module, torchmetrics.Metric):
        module.reset()
print(model["accuracy"].update_called)
"""

PIXELS = """
import torch
from torchmetrics.functional.segmentation import mean_iou
from torchmetrics.segmentation import GeneralizedDiceScore, MeanIoU
from torchmetrics.segmentation.dice import DiceScore

torch.manual_seed(8)
preds, target = torch.randint(2, (4, 3, 8, 8)), torch.randint(2, (4, 3, 8, 8))
for metric in (MeanIoU(3, per_class=True), GeneralizedDiceScore(3), DiceScore(3, average="macro")):
    print(type(metric).__name__, [round(value, 5) for value in metric(preds, target).flatten().tolist()])
print([round(value, 5) for value in mean_iou(preds, target, num_classes=3).flatten().tolist()])
"""

LIGHTNING = """
import lightning
import torch
import torchmetrics
from torch.utils.data import DataLoader, TensorDataset

class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)
        self.loss = torchmetrics.MeanMetric()
        self.accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=3)
        self.scores = torchmetrics.MetricCollection(
            [torchmetrics.classification.MulticlassF1Score(3), torchmetrics.classification.MulticlassAUROC(3)],
            prefix="valid/",
        )

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
        self.accuracy(self.layer(batch[0]), batch[1])
        self.log("train/accuracy", self.accuracy, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, index):
        self.scores.update(self.layer(batch[0]).softmax(-1), batch[1])
        self.loss.update(batch[0].mean())

    def on_validation_epoch_end(self):
        self.log_dict(self.scores.compute())
        self.log("valid/mean", self.loss)
        self.scores.reset()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

lightning.seed_everything(9, verbose=False)
data = DataLoader(TensorDataset(torch.randn(24, 4), torch.randint(3, (24,))), batch_size=8)
trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, num_sanity_val_steps=0,
)
trainer.fit(Model(), data, data)
print({name: round(float(value), 5) for name, value in sorted(trainer.callback_metrics.items())})
"""

PROGRAMS = {
    "loop": LOOP, "collection": COLLECTION, "tracker": TRACKER, "functional": FUNCTIONAL, "boxes": BOXES,
    "texts": TEXTS, "own metric": OWN_METRIC, "wrappers": WRAPPERS, "arithmetic": ARITHMETIC, "pixels": PIXELS,
    "lightning": LIGHTNING,
}  # fmt: skip
"""Programs that import torchmetrics; ``moved`` changes nothing else in them."""

NUMBER = re.compile(r"-?\d+\.\d*(?:e-?\d+)?|\b\d+\b")


def moved(program: str) -> str:
    """The program with ``import valor_gpu as torchmetrics`` and imports from valor_gpu."""
    program = re.sub(r"^import torchmetrics$", "import valor_gpu as torchmetrics", program, flags=re.MULTILINE)
    return re.sub(r"^(from|import) torchmetrics\b", r"\1 valor_gpu", program, flags=re.MULTILINE)


def printed(program: str) -> str:
    """What the program prints, without the warnings of either package and of trainers."""
    with contextlib.redirect_stdout(io.StringIO()) as text, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(program, "<program>", "exec"), {"__name__": "program"})
    return text.getvalue()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_the_same(name: str) -> None:
    program = PROGRAMS[name]
    changed = moved(program)
    assert "torchmetrics" in program and not re.search(r"^(from|import) torchmetrics", changed, re.MULTILINE)
    mine, theirs = printed(changed), printed(program)
    assert NUMBER.sub("#", mine) == NUMBER.sub("#", theirs) != ""
    # float32, added up in another order
    np.testing.assert_allclose(*(list(map(float, NUMBER.findall(text))) for text in (mine, theirs)), rtol=2e-5)
