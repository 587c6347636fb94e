"""The page of a saved result: numbers, classes, curves, confusions, images and their pictures."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from testing.text_ids import renamed
from tests.coco.comparison import OURS, evaluator, random_objects, run
from tests.test_save_result import evaluation, with_intervals
from tests.web.pages import client, locked_client, text_of
from valor_gpu.pages.numbers import MINUS
from valor_gpu.result import Result, Signature
from valor_gpu.store import SavedImage, SavedRun, Store
from valor_gpu.web.vision.tables import rate_column

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


def test_bars_are_of_the_first_fraction_that_a_class_has() -> None:
    table = {
        "support": {"a": 1.0},
        "ap": {"a": None, "b": None},
        "distance": {"a": 0.5, "b": 7.0},
        "iou": {"a": None, "b": 1.0},
    }
    assert rate_column(table) == "iou"
    assert rate_column({"ap": table["ap"], "distance": table["distance"]}) is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (pictures / "i1.png").write_bytes(PNG)
    return pictures


@pytest.fixture
def site(tmp_path: Path, folder: Path) -> tuple[TestClient, str]:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.save(
            evaluation(), "cats <b>", images=folder, tags={"model": "m"}, data={"source": "/data/val.json"}
        )
    return client(tmp_path / "s.sqlite"), run.id


class Given:
    """A result that is saved as it was given."""

    def __init__(self, run: SavedRun) -> None:
        self._run = run

    def to_run(self) -> SavedRun:
        """The run."""
        return self._run


def saved(tmp_path: Path, run: SavedRun, folder: Path | None = None) -> str:
    with Store(tmp_path / "s.sqlite") as store:
        return store.save(Given(run), "given", images=folder).id


def detection(*names: str) -> SavedRun:
    images = tuple(SavedImage(name, {"image": name, "width": 9, "height": 9}, {}, {"image_f1": 0.5}) for name in names)
    return SavedRun("detection", {}, {}, images=images)


def test_the_run_leads_to_its_page(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    found = browser.get(f"/runs/{uid}")
    assert found.url.path == f"/runs/{uid}/vision" and found.status_code == 200
    shown = text_of(found)
    assert "cats &lt;b&gt;" in shown and "<b>cats" not in found.text
    assert "val.json" in shown and "/data/" not in shown, "the page names the file, not its folder"
    assert "4 images, 6 ground truths" in shown and "metric COCOeval | iou_type bbox" in shown


def test_numbers_with_n_and_why_one_is_missing(site: tuple[TestClient, str]) -> None:
    shown = text_of(site[0].get(f"/runs/{site[1]}/vision"))
    assert "Averages over 4 images; this result has no intervals" in shown and "fewer than 20" not in shown
    assert (
        re.search(r"AP mean over IoU 0\.\d{3}", shown)
        and "AP large above 96² px · no ground truth counts for it" in shown
    )
    assert re.search(r"image F1 0\.356 95% interval \S+ to 0\.\d{3} n 3, 1 without this number", shown)


def test_bounds_stand_beside_numbers_and_classes(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        uid = store.save(with_intervals(), "with intervals", names=("cat", "dog")).id
    found = client(tmp_path / "s.sqlite").get(f"/runs/{uid}/vision")
    shown = text_of(found)
    choices = "90% intervals of E[map] at 40 images: 1,000 replicates of images, method normal, seed 0"
    assert f"Averages over 40 images; {choices}" in shown and "no intervals" not in shown
    assert "classes that fewer than 20 images hold have no interval" in shown
    assert "AP mean over IoU 0.500 90% interval 0.400 to 0.600" in shown
    assert "AP small under 32² px 0.250 no interval: too few images" in shown
    assert "worst 12.000 90% interval 10.000 to 14.000" in shown, "also where there is no bar"
    assert f"cat 3 0.500 ({MINUS}0.125 to 0.875)" in shown and "dog 2 0.750 " in shown
    assert f'aria-label="AP of cat: 0.500 ({MINUS}0.125 to 0.875)"' in found.text


def test_classes_sort_by_every_column(site: tuple[TestClient, str]) -> None:
    browser, uid = site

    def order(sort: str) -> list[str]:
        found = browser.get(f"/runs/{uid}/vision?sort={sort}").text.split('id="classes"')[1].split("</table>")[0]
        return re.findall(r'<th scope="row" class="pin"><a [^>]+>(\w+)', found)

    assert order("name") == ["cat", "dog"] and order("-name") == ["dog", "cat"]
    assert order("-detections") == ["cat", "dog"] or order("-detections") == ["dog", "cat"]
    assert order("map") == order("-map")[::-1]


def test_curves_confusions_and_boxes_are_pictures_with_words(site: tuple[TestClient, str]) -> None:
    found = site[0].get(f"/runs/{site[1]}/vision").text
    assert re.search(r'aria-label="precision over recall of cat, AP 0\.\d{3}"', found)
    assert 'aria-label="confusion matrix; the largest confusions: cat as missed 1; dog as cat 1' in found
    assert found.count('class="curve"') == 2 and "solid IoU 0.50, dashed IoU 0.75" in text_of(
        site[0].get(f"/runs/{site[1]}")
    )
    worst = found.split('id="worst"')[1]
    assert re.findall(r"<b>(\d\.\d+)</b>", worst) == ["0.000", "0.400", "0.667"], "the lowest first"
    assert 'aria-label="i1.png: image F1 0.400, 1 found, 2 wrong, 1 missed"' in worst
    assert worst.count('class="truth"') == 5 and worst.count('class="guess"') == 4 and "dog 0.70" in worst
    assert "style=" not in found and "<script>" not in found


def test_a_picture_of_the_run(site: tuple[TestClient, str], tmp_path: Path) -> None:
    browser, uid = site
    found = browser.get(f"/runs/{uid}/images/1")
    assert found.content == PNG and found.headers["content-type"] == "image/png"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert browser.get(f"/runs/{uid}/images/2").status_code == 404, "no such file"
    assert browser.get(f"/runs/{uid}/images/99").status_code == 404
    page = browser.get(f"/runs/{uid}")
    assert page.text.count("<image href=") == 1, "no address of a picture that is not there"
    assert re.search(r"\d of these \d pictures cannot be shown", text_of(page))
    assert locked_client(tmp_path / "s.sqlite").get(f"/runs/{uid}/images/1").status_code == 403


@pytest.mark.parametrize(
    "name", ["../secret.png", "/etc/passwd", "link.png", "up/../../secret.png", "a\x00b.png", "", "."]
)
def test_no_file_outside_the_folder(tmp_path: Path, folder: Path, name: str) -> None:
    (tmp_path / "secret.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "up").mkdir()
    uid = saved(tmp_path, detection(name), folder)
    found = client(tmp_path / "s.sqlite").get(f"/runs/{uid}/images/1")
    assert found.status_code == 404 and PNG not in found.content


def test_pictures_are_told_by_their_bytes(tmp_path: Path, folder: Path) -> None:
    kinds = {
        "a.svg": b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>",
        "b.png": b"<html>",
        "c.png": b"",
    }
    kinds |= {"d.txt": b"\xff\xd8\xff\xe0", "e.gif": b"GIF89a", "f.x": b"RIFF0000WEBPVP8 "}
    for name, content in kinds.items():
        (folder / name).write_bytes(content)
    os.mkfifo(folder / "g.png")
    uid = saved(tmp_path, detection(*kinds, "g.png"), folder)
    browser = client(tmp_path / "s.sqlite")
    found = [browser.get(f"/runs/{uid}/images/{n}") for n in range(1, 8)]
    assert [each.status_code for each in found] == [404, 404, 404, 200, 200, 200, 404]
    assert [each.headers["content-type"] for each in found[3:6]] == ["image/jpeg", "image/gif", "image/webp"]


def test_a_picture_that_is_too_large(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valor_gpu.web.vision.pictures.MOST_BYTES", len(PNG) - 1)
    uid = saved(tmp_path, detection("i1.png"), folder)
    found = client(tmp_path / "s.sqlite").get(f"/runs/{uid}/images/1")
    assert found.status_code == 404 and "has 0 MB" in text_of(found)


def test_without_a_folder_boxes_stand_on_a_plain_ground(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        uid = store.save(evaluation(), "cats").id
    browser = client(tmp_path / "s.sqlite")
    found = browser.get(f"/runs/{uid}/vision")
    assert "no folder of pictures was given" in text_of(found) and "<image" not in found.text
    assert browser.get(f"/runs/{uid}/images/1").status_code == 404


def test_names_are_texts(tmp_path: Path) -> None:
    name = '<img src=x onerror="1">'
    shape = {"of": "prediction", "name": name, "box": [0, 0, 5, 5], "right": False, "score": 0.5}
    bad = {"of": "truth", "name": name, "box": [0, 0, "<b>", 5], "right": True}
    image = SavedImage(name, {"image": name, "width": 9, "height": 9}, {name: 1}, {"image_f1": 0.5}, (shape, bad))
    matrix = {"names": [name, "b"], "counts": [[0, 1, 2]], "note": name}
    run = SavedRun(
        "detection", {name: name}, {name: 0.5}, {name: 3}, classes={"map": {name: 0.5, "b": None}},
        curves=[{"name": name, "lines": [{"name": name, "points": [[0, 1], [1, 0]]}]}], matrix=matrix,
        settings={name: name}, images=(image,), notes=(name,),
    )  # fmt: skip
    uid = saved(tmp_path, run)
    found = client(tmp_path / "s.sqlite").get(f"/runs/{uid}/vision")
    assert found.status_code == 200 and "<img" not in found.text and "&lt;img" in found.text


def test_many_images_come_in_pages(tmp_path: Path) -> None:
    images = tuple(SavedImage(f"k{n}", {"image": f"i{n}"}, {}, {"image_f1": n // 2 / 50}) for n in range(60))
    uid = saved(tmp_path, SavedRun("detection", {}, {}, images=images))
    browser = client(tmp_path / "s.sqlite")
    seen: list[str] = []
    address = f"/runs/{uid}/vision"
    while address:
        found = browser.get(address).text
        seen += re.findall(r'/image/\d+">(i\d+)<', found)
        more = re.search(r'href="([^"]*after=[^"]*)#worst">Next', found)
        address = more[1].replace("&amp;", "&") if more else ""
    assert seen == [f"i{n}" for n in range(60)]


def test_a_result_without_images(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        uid = store.save(Result({"map": 0.5}, Signature({"metric": "COCOeval"}), {"images": 8}), "numbers").id
    shown = text_of(client(tmp_path / "s.sqlite").get(f"/runs/{uid}"))
    assert "over 8 images" in shown and "saved without its images" in shown and "Worst images" not in shown


def test_other_runs_have_their_own_page(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        uid = store.create_run("texts", {}).id
    assert client(tmp_path / "s.sqlite").get(f"/runs/{uid}/vision").url.path == f"/runs/{uid}"


def test_the_list_and_the_comparison_know_it(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        ids = [store.save(evaluation(), name, score_threshold=at).id for name, at in (("first", 0.25), ("second", 0.0))]
    browser = client(tmp_path / "s.sqlite")
    shown = text_of(browser.get("/runs?kind=vision"))
    assert "second" in shown and "saved result" in shown and re.search(r"0\.\d{3} map", shown)
    found = text_of(browser.get(f"/compare?runs={ids[0]}&runs={ids[1]}"))
    assert "4 images joined by key" in found and "the same answer" not in found and "settings.score threshold" in found
    assert re.search(r"image_f1 0\.356 0\.467 \+0\.111", found) and "i3.png" in found
    assert browser.get(f"/runs/{ids[0]}/export.csv").status_code == 200
    assert "found" in text_of(browser.get(f"/runs/{ids[0]}/rows/1"))


def test_numbers_of_the_whole_are_compared(tmp_path: Path) -> None:
    better = SavedRun(
        "detection", {}, {"map": 0.75, "map_50": None}, classes={"map": {"cat": 0.9, "dog": 0.5, "x": None}}
    )
    base = SavedRun("detection", {}, {"map": 0.5, "map_50": 0.8}, classes={"map": {"cat": 0.6, "dog": 0.5, "x": 0.1}})
    with Store(tmp_path / "s.sqlite") as store:
        ids = [store.save(Given(each), "x", tags={"epochs": n}).id for n, each in enumerate((base, better), 3)]
    browser = client(tmp_path / "s.sqlite")
    shown = text_of(browser.get(f"/compare?runs={ids[0]}&runs={ids[1]}"))
    assert "tag epochs 3 4" in shown and "equal settings are hidden" in shown
    assert "Images are not compared one by one." in shown and "saved without its images" in shown
    assert "AP 0.500 0.750 +0.250" in shown and "AP50 0.800 · ·" in shown
    assert "AP of classes" in shown and "cat 0.600 0.900 +0.300" in shown and "1 of 1 classes that differ" in shown
    turned = text_of(browser.get(f"/compare?runs={ids[0]}&runs={ids[1]}&baseline={ids[1]}"))
    assert f"AP 0.750 0.500 {MINUS}0.250" in turned


def test_images_and_the_whole_are_compared_on_one_page(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        ids = [store.save(evaluation(), name, score_threshold=at).id for name, at in (("first", 0.25), ("second", 0.0))]
        ids.append(store.create_run("texts", {}).id)
    site, address = client(tmp_path / "s.sqlite"), f"/compare?runs={ids[0]}&runs={ids[1]}"
    while 'http-equiv="refresh"' in (found := site.get(address)).text:  # tests go on in the background
        time.sleep(0.05)
    shown = text_of(found)
    assert shown.index("B against A") < shown.index("Differences from A")
    assert "settings.score threshold 0.25 0.0" in shown and "data.hash" not in shown
    page = shown.partition("Markdown for a pull request")[0]
    assert "images joined by key" in page and "Images that changed most" in page and "rows" not in page
    assert re.search(r"map (0\.\d{3}) \1 0\.000", shown)


def test_samples_of_a_classifier_are_a_table(tmp_path: Path) -> None:
    samples = tuple(
        SavedImage(str(n), {"sample": n, "ground_truth": "cat"}, {"answer": "dog"}, {"correct": 0.0}) for n in (1, 2)
    )
    uid = saved(tmp_path, SavedRun("classification", {}, {"accuracy": 0.0}, images=samples))
    shown = text_of(client(tmp_path / "s.sqlite").get(f"/runs/{uid}"))
    assert "Worst samples lowest correct first Worst samples Sample correct What happened" in shown
    assert "1 0.000 cat taken for dog" in shown and "plain ground" not in shown


def test_the_page_of_an_image(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    assert f'href="/runs/{uid}/image/1"' in browser.get(f"/runs/{uid}/vision").text
    found = browser.get(f"/runs/{uid}/image/1")
    shown = text_of(found)
    assert "image F1 0.400" in shown and "found 1 wrong 2 missed 1" in shown and "width 100" in shown
    assert "truth, missed dog · 50.0, 0.0, 10.0, 10.0" in shown and "prediction, wrong cat 0.80 50.0" in shown
    assert f'<image href="/runs/{uid}/images/1" width="880" height="176.0"/>' in found.text
    assert (
        f"/runs/{uid}/image/2" in found.text and f"/runs/{uid}/image/5" not in browser.get(f"/runs/{uid}/image/4").text
    )
    assert browser.get(f"/runs/{uid}/image/99").status_code == 404


def test_a_class_leads_to_its_worst_images(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    page = browser.get(f"/runs/{uid}/vision")
    links = dict(re.findall(r'<a href="([^"]+class=[^"]+)" title="Worst images of ([^"]+)"', page.text))
    assert links
    for link, name in links.items():
        shown = text_of(browser.get(link.replace("&amp;", "&").split("#")[0]))
        assert f"Worst images of {name}" in shown
        counts = re.findall(r"(\d+) found, (\d+) wrong, (\d+) missed of this class", shown)
        f1 = [2 * int(f) / (2 * int(f) + int(w) + int(m)) for f, w, m in counts]
        assert f1 == sorted(f1)
    assert any("missed of this class" in text_of(browser.get(link.replace("&amp;", "&"))) for link in links)
    nothing = browser.get(f"/runs/{uid}/vision?class=%3Cb%3Enothing")
    assert "No images with &lt;b&gt;nothing were kept." in text_of(nothing) and "<b>nothing" not in nothing.text
    assert browser.get(f"/runs/{uid}/vision?class=cat&after=-1").status_code == 200


def test_images_of_a_class_come_in_pages(tmp_path: Path) -> None:
    def shape(of: str, right: bool) -> dict[str, object]:
        return {"of": of, "name": "cat", "right": right, "box": [0, 0, 1, 1]}

    images = tuple(
        SavedImage(f"i{n}", {"image": f"i{n}", "width": 9, "height": 9}, {}, {"image_f1": 1.0},
                   [shape("truth", False)] * n + [shape("truth", True), shape("prediction", True)])
        for n in range(30)
    )  # fmt: skip
    uid = saved(tmp_path, SavedRun("detection", {}, {}, classes={"map": {"cat": 0.5, "dog": None}}, images=images))
    browser = client(tmp_path / "s.sqlite")
    first = text_of(browser.get(f"/runs/{uid}/vision?class=cat"))
    assert first.count("of this class") == 24 and "0.065 1 found, 0 wrong, 29 missed" in first
    rest = browser.get(f"/runs/{uid}/vision?class=cat&after=24")
    assert text_of(rest).count("of this class") == 6 and "1.000 1 found, 0 wrong, 0 missed" in text_of(rest)
    assert "No images with dog were kept." in text_of(browser.get(f"/runs/{uid}/vision?class=dog"))


def test_samples_of_a_class(tmp_path: Path) -> None:
    pairs = [("a", "a"), ("a", "b"), ("b", "b")]
    images = tuple(
        SavedImage(str(n), {"sample": n, "ground_truth": t}, {"answer": g}, {"correct": float(t == g)})
        for n, (t, g) in enumerate(pairs, 1)
    )
    uid = saved(tmp_path, SavedRun("classification", {}, {}, classes={"f1": {"a": 0.5, "b": 0.5}}, images=images))
    shown = text_of(client(tmp_path / "s.sqlite").get(f"/runs/{uid}/vision?class=b"))
    assert "Worst samples of b" in shown and "0 found, 1 wrong, 0 missed" in shown and "1.000 1 found" in shown


def test_what_has_no_images_says_why(tmp_path: Path) -> None:
    for metric, words in (("Valor", "valor_gpu.valor keeps numbers"), ("LVISEval", "where it was checked"),
                          ("AP", "saving the COCOeval itself")):  # fmt: skip
        uid = saved(tmp_path, SavedRun("detection", {"metric": metric}, {"map": 0.5}))
        assert words in text_of(client(tmp_path / "s.sqlite").get(f"/runs/{uid}/vision"))


def test_ids_that_are_texts_are_shown(tmp_path: Path) -> None:
    dataset, results = renamed(random_objects(8), 8)
    first = dataset["images"][0]["id"]
    for each in (*dataset["images"], *dataset["annotations"], *results):
        name = "id" if "file_name" not in each and "image_id" not in each else "image_id"
        each[name] = "<b>day 1/img" if each[name] == first else each[name]
    with Store(tmp_path / "s.sqlite") as store:
        run_id = store.save(run(evaluator(OURS, (dataset, results))).e, "texts").id
    site = client(tmp_path / "s.sqlite")
    pages = [site.get(f"/runs/{run_id}")]
    pages += [site.get(f"/runs/{run_id}/image/{n}") for n in range(1, len(dataset["images"]) + 1)]
    assert {page.status_code for page in pages} == {200}
    assert sum("&lt;b&gt;day 1/img" in page.text for page in pages) >= 1
    assert not any("<b>day 1/img" in page.text for page in pages)
