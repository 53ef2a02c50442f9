"""Make the pictures of README and docs from the demo and the records: `make pictures`.

Screens are taken from the demo's bundle and report in Chromium, light, and reduced to 64 colours;
the chart is drawn from the records of `benchmarks/results`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from benchmarks.tables import claims, results
from matplotlib import rcParams
from matplotlib.figure import Figure
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

PICTURES = Path(__file__).parent / "pictures"
ITEM = "Tortilla Chips"
"""One of the best sellers on the first page."""
WIDTH = 960
LIMIT = 120_000
"""Bytes that a picture may have."""
rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "neatrec"})  # text stays text


def main() -> None:
    """Draw the charts, then take the screens."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--demo", type=Path, default=Path("neatrec-demo"), help="folder that `neatrec demo` wrote"
    )
    demo = parser.parse_args().demo
    if not demo.exists():
        subprocess.run([sys.executable, "-m", "neatrec", "demo", "--out", str(demo)], check=True)
    PICTURES.mkdir(exist_ok=True)
    draw_chart(PICTURES / "hit-rate.svg")
    draw_weights(PICTURES / "odds-weights.svg")
    with sync_playwright() as driver, serving(demo / "bundle") as address:
        chromium = (
            os.environ.get("NEATREC_CHROMIUM")
            or shutil.which("chromium")
            or shutil.which("google-chrome")
        )
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        take_screens(browser, address, (demo / "report" / "index.html").absolute().as_uri())
        browser.close()
    for picture in sorted(PICTURES.iterdir()):
        print(f"{picture.name}: {picture.stat().st_size / 1000:.0f} kB")
        if picture.stat().st_size > LIMIT:
            raise SystemExit(f"{picture} is larger than {LIMIT / 1000:.0f} kB")


def take_screens(browser: Browser, address: str, report: str) -> None:
    """The pages of the service and the first screen of the report."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 720}, color_scheme="light")
    page.goto(address)
    save(page, "home")
    page.get_by_role("link", name=ITEM, exact=True).first.click()
    save(page, "item-page")
    page.goto(report)
    save(page, "report")


def save(page: Page, name: str) -> None:
    """Keep the screen as `NAME.png`."""
    page.wait_for_load_state("networkidle")
    page.screenshot(path=PICTURES / f"{name}.png")
    reduce_colours(PICTURES / f"{name}.png")


def reduce_colours(file: Path) -> None:
    """Reduce a picture to 64 colours."""
    with Image.open(BytesIO(file.read_bytes())) as image:
        image.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(file, optimize=True)


def draw_chart(file: Path) -> None:
    """HR@10 on the Instacart half-split by both protocols: the best simple statistic, neatrec."""
    bars = [
        (f"{claim.protocol} labels: {name}", hit, text, colour)
        for claim in claims()
        for name, hit, text, colour in (
            ("neatrec", claim.hit, f"{claim.hit:.3f} (difference {claim.interval})", "#1c6247"),
            (claim.statistic, claim.statistic_hit, f"{claim.statistic_hit:.3f}", "#c9cfcb"),
        )
    ]
    names, hits, texts, colours = zip(*reversed(bars), strict=True)
    figure = Figure(figsize=(6.4, 2.0), layout="constrained")
    axes = figure.subplots()
    drawn = axes.barh([0, 0.8, 2, 2.8], hits, color=colours, height=0.7, tick_label=names)
    axes.bar_label(drawn, texts, padding=4, fontsize=9)
    axes.set(xlim=(0, 2.2 * max(hits)), xticks=[])
    axes.set_title("HR@10 on held-out Instacart baskets", loc="left", fontsize=10)
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
    axes.tick_params(left=False)
    figure.patch.set_facecolor("white")
    figure.savefig(file, metadata={"Date": None})


def draw_weights(file: Path) -> None:
    """Weights of the default ranking's features on the Instacart half-split."""
    from neatrec.models.odds.features import WORDS

    learned = results("odds_claim")["half"]["learned"]
    words = {key: text for key, text in WORDS.items() if key in learned["strong"]["weights"]}
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes, rows = figure.subplots(), range(len(words))
    for shift, name, color in ((-0.2, "strong", "#1c6247"), (0.2, "dependent", "#9aa69f")):
        weights = [learned[name]["weights"][key] for key in words]
        heights = [row + shift for row in rows]
        axes.barh(heights, weights, height=0.36, color=color, label=f"{name} pair")
    axes.set_yticks(list(rows), list(words.values()))
    axes.invert_yaxis()
    axes.axvline(0, color="#333333", linewidth=0.8)
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False, labelsize=8)
    figure.patch.set_facecolor("white")
    figure.savefig(file, metadata={"Date": None})


@contextmanager
def serving(bundle: Path) -> Iterator[str]:
    """The address of a service that runs while the block does."""
    words = [sys.executable, "-m", "neatrec", "serve", str(bundle), "--port", "0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = next((line for line in process.stderr if " on http://" in line), "")
            if not line:
                raise SystemExit("the service did not start")
            yield "http://" + line.partition(" on http://")[2].split()[0]
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
