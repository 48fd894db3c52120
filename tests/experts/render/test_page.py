"""The pages about experts: safe and small as text, and right in a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.browser import wait_until
from tests.experts.render import documents
from tests.pages import check_modules, page_blocks
from weftrace.experts.outputs import PLACEMENT, REPLAY
from weftrace.experts.render.page import HOME, placement_block, render_placement_html
from weftrace.experts.render.words import next_windows_words, page_words, placement_headline, replay_headline, row_words
from weftrace.files.schemas import schema_for
from weftrace.outputs import Output

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

MB = 1_000_000
ATTACK = '</script><img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'


def block(html: str) -> Any:
    found, _terms, _columns = page_blocks(html).values()
    return found


# ---- the documents of these tests


@pytest.mark.parametrize(
    ("output", "document"),
    [
        (PLACEMENT, documents.placement()),
        (PLACEMENT, documents.bare_placement()),
        (PLACEMENT, documents.large_placement(4, 32, 40, 8, 2, uneven=True, dead=(3,))),
        (REPLAY, documents.replay()),
        (REPLAY, documents.large_replay(20)),
    ],
)
def test_documents_fit_their_schema(output: Output, document: Any) -> None:
    jsonschema.Draft202012Validator(schema_for(output).json_schema()).validate(document)


# ---- as text


def test_modules_are_joined_after_what_they_import() -> None:
    check_modules(HOME, ["placement", "replay"])


def test_headlines() -> None:
    """First what to expect on loads not seen; a fit to the placement's own loads is called one."""
    document = documents.placement()
    next_window = (
        "On the next window balancedness 0.8500, 15.0 points (10.0 to 20.0) over the placement before, kept (0.7000): "
        "the mean of 2 windows, each planned on the 4 before it. On the loads that it was planned on: 0.9211"
    )
    assert placement_headline(documents.read(document)) == f"{next_window} (at most 0.9706 under the same rules)."
    document["certificate"]["is_optimal"] = [True, True]
    assert placement_headline(documents.read(document)) == f"{next_window} (proved the best possible)."
    document["next_windows"] = None
    assert placement_headline(documents.read(document)) == (
        "Balancedness 0.9211 (proved the best possible) on the loads that it was planned on, where the placement "
        "before reaches 0.6410: a fit, no prediction."
    )
    document["loads"] = [[1.0] * 4] * 2  # not those of the certificate
    assert placement_headline(documents.read(document)) == (
        "Balancedness 0.9211 on the loads given, where the placement before reaches 0.6410: a prediction only if it "
        "was not planned on them."
    )
    near = documents.bare_placement()
    near["gpu_load"]["after"]["balancedness"] = [1.0, 0.99996]
    assert "Balancedness 0.99998 " in placement_headline(documents.read(near))  # not perfect, and it shows


def test_a_loss_on_the_next_window_is_called_one() -> None:
    judged = documents.placement()["next_windows"] | {"look_back": None, "windows": [11]}
    judged["rows"] = [{**row, "balancedness": row["balancedness"][1:]} for row in judged["rows"][:2]]
    judged["rows"][0]["balancedness"] = [0.65]
    report = documents.read(documents.placement(next_windows=judged))
    summary = (
        "0.6500, 5.0 points under the placement before, kept (0.7000): one window, planned on all windows before it"
    )
    assert next_windows_words(report.next_windows) == summary


def test_windows_that_lose_have_a_true_minus() -> None:
    judged = documents.placement()["next_windows"] | {"look_back": None, "windows": [10, 11]}
    judged["rows"] = [
        {**row, "balancedness": values}
        for row, values in zip(judged["rows"][:2], ([0.69, 0.76], [0.70, 0.70]), strict=True)
    ]
    report = documents.read(documents.placement(next_windows=judged))
    assert "2.5 points (−1.0 to 6.0) over" in next_windows_words(report.next_windows)


def test_replay_headline() -> None:
    won = "balance+resplit on mean of 4, every 2 windows: balancedness 0.9600"
    summary = f"{won}, 6.0 points over deepseek on last, every 2 windows."
    assert replay_headline(documents.read(documents.replay())) == summary


def test_pages_are_one_file_that_reaches_nothing() -> None:
    for html in (documents.page(documents.placement()), documents.page(documents.replay())):
        tags = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
        assert not re.findall(r'(?:src|href|action)="(?!#|data:)[^"]*"', tags)
        assert "url(" not in html and "@import" not in html
        assert "default-src &#39;none&#39;" in html and "unsafe" not in html.split("</head>")[0]


def test_page_holds_loads_in_few_digits_and_moves_as_columns() -> None:
    document = documents.placement(loads=[[8.123456789, 4.0, 2.0, 2.0], [12.0, 1.0, 0.0, 3.0]])
    held = block(documents.page(document))
    assert held["loads"][0] == [8.12346, 4, 2, 2]
    assert held["gpu_load"]["after"]["balancedness"] == document["gpu_load"]["after"]["balancedness"]
    assert held["moves"]["list"] == {
        "round": [0, 1, 0], "layer": [0, 0, 1], "expert": [0, 1, 2], "slot": [3, 4, 2], "from_slot": [0, 1, -1],
    }  # fmt: skip
    assert placement_block(documents.read(documents.bare_placement()))["moves"] is None
    replay = documents.replay()
    head = {key: replay.pop(key) for key in ("schema", "weftrace")}
    assert block(documents.page(replay | head)) == {
        **replay,
        "names": [row_words(row) for row in documents.read(replay | head).rows],
    }


def test_hostile_text_stays_text() -> None:
    document = documents.placement(source=ATTACK + "\ud800")
    document["gpu_load"]["before"]["label"] = document["choice"]["reason"] = ATTACK
    html = documents.page(document)
    html.encode("utf-8")
    assert "<img" not in html
    assert html.count("</script>") == 4  # blocks of the document, the terms and the columns, and the page's script


def test_nan_is_refused() -> None:
    report = documents.read(documents.placement())
    with pytest.raises(ValueError, match="JSON"):
        render_placement_html(replace(report, loads_LN=report.loads_LN * float("nan")))


def test_61_layers_of_320_experts_moved_whole_stay_under_2_mb() -> None:
    document = documents.large_placement(61, 320, 384, 64, 8, uneven=True)
    assert len(documents.page(document).encode("utf-8")) < 2 * MB


# ---- in a browser


@pytest.fixture
def placement_page(open_html: Any) -> Page:
    page: Page = open_html(documents.page(documents.placement()))
    return page


@pytest.fixture
def replay_page(open_html: Any) -> Page:
    page: Page = open_html(documents.page(documents.replay()))
    return page


def scrolled(page: Page) -> None:
    """Wait until a scroll has been told to the page: it hides the tooltip."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def rows(table: Locator) -> list[list[str]]:
    return [[text.strip() for text in row.locator("td").all_inner_texts()] for row in table.locator("tbody tr").all()]


def card(page: Page, key: str) -> str:
    return page.locator(f'[data-card="{key}"] .card-value').inner_text()


def test_first_screen_of_a_placement(placement_page: Page) -> None:
    assert placement_page.locator("h1").inner_text().startswith("On the next window balancedness 0.8500, 15.0 points")
    cards = placement_page.locator("[data-card]").evaluate_all("(cards) => cards.map((card) => card.dataset.card)")
    assert cards[0] == "next_window"
    assert [
        card(placement_page, key) for key in ("next_window", "balancedness", "gap", "binding", "slots_for_target")
    ] == ["0.8500", "0.9211", "11.8 %", "packing", "8"]
    assert "15.0 points over" in placement_page.locator('[data-card="next_window"]').inner_text()
    widths = placement_page.locator(".work-before, .work-after, .work-beside, .work-fit").evaluate_all(
        "(parts) => parts.map((part) => part.offsetWidth / part.parentElement.offsetWidth)"
    )
    assert widths == pytest.approx([0.85, 0.7, 0.79, (1 + 8 / 9.5) / 2], abs=0.01)
    assert "Fit, no prediction" in placement_page.locator("#account").inner_text()
    assert "may have been planned on these windows" in placement_page.locator("#account").inner_text()
    assert (
        "the busiest GPUs do 30 % less" in placement_page.locator('[data-card="balancedness"]').inner_text()
    )  # 25 to 17.5


def test_model_by_the_pencil(placement_page: Page) -> None:
    ratio = placement_page.evaluate("[0, 1].map((l) => [0, 1].map((g) => weftrace.model.ratio('after', l, g)))")
    assert ratio == [[1, 1], [6.5 / 8, 9.5 / 8]]
    there = placement_page.evaluate("weftrace.model.contents(1, 1).map((s) => [s.expert, s.share, s.copies, s.ratio])")
    assert there == [[0, 0.5, 2, 6 / 8], [3, 1, 1, 3 / 8], [1, 0.5, 2, 0.5 / 8]]
    assert placement_page.evaluate("weftrace.model.slotsOf(0)") == [[0, 3], [1, 4], [2], [5]]


def test_it_opens_at_the_layer_with_most_to_gain(placement_page: Page) -> None:
    assert placement_page.evaluate("weftrace.layer()") == 1
    assert placement_page.locator("#layer-title").inner_text() == "Layer 4"
    facts = placement_page.locator("#layer-facts").inner_text()
    assert (
        facts == "Balancedness 0.8421; before 0.6154; at most 0.9412 possible; held back by packing; found by deepseek."
    )


def test_layers_are_chosen_by_select_buttons_and_map(placement_page: Page) -> None:
    placement_page.select_option("#layer-select", "0")
    assert placement_page.locator("#layer-title").inner_text() == "Layer 3"
    assert placement_page.locator("#layer-prev").is_disabled()
    placement_page.click("#layer-next")
    assert placement_page.evaluate("weftrace.layer()") == 1
    placement_page.locator("#maps-box").scroll_into_view_if_needed()
    place = placement_page.evaluate("weftrace.place('before', 0, 1)")
    placement_page.mouse.click(place["x"], place["y"])
    assert placement_page.evaluate("weftrace.layer()") == 0


def test_a_cell_tells_its_experts(placement_page: Page) -> None:
    placement_page.locator("#maps").scroll_into_view_if_needed()
    scrolled(placement_page)
    place = placement_page.evaluate("weftrace.place('after', 1, 1)")
    placement_page.mouse.move(place["x"], place["y"])
    tip = placement_page.locator("#tooltip").inner_text().split("\n")
    assert tip[0] == "Layer 4, GPU 1, node 1"
    assert "1.188× the mean, load 9.5" in tip
    assert "0.750×, 50.0 % of it (2 copies)" in tip
    placement_page.mouse.move(2, 2)
    assert placement_page.locator("#tooltip").is_hidden()


def test_maps_by_keyboard(placement_page: Page) -> None:
    placement_page.locator('canvas[data-map="after"]').focus()
    for key in ("ArrowUp", "ArrowLeft"):
        placement_page.keyboard.press(key)
    assert placement_page.locator("#map-live").inner_text().startswith("Layer 4, ")
    placement_page.keyboard.press("ArrowUp")
    placement_page.keyboard.press("Enter")
    assert placement_page.evaluate("weftrace.layer()") == 0


def test_finer_colours(placement_page: Page) -> None:
    picture = "document.querySelector('canvas[data-map=after]').toDataURL()"
    before = placement_page.evaluate(picture)
    placement_page.locator("[data-reach='1']").click()
    assert placement_page.evaluate("weftrace.reach()") == 0.2
    wait_until(placement_page, f"(before) => {picture} !== before", arg=before)
    assert placement_page.locator("[data-reach='1']").get_attribute("aria-pressed") == "true"


def test_copies_of_an_expert_are_marked_together(placement_page: Page) -> None:
    assert placement_page.locator("#layer-chart rect[data-expert]").count() == 6
    assert placement_page.locator("#layer-chart rect.copied").count() == 4
    heights = placement_page.locator("#layer-chart g[data-gpu='1'] rect[data-expert]").evaluate_all(
        "(parts) => parts.map((part) => Number(part.getAttribute('height')))"
    )
    assert heights[0] > 1.9 * heights[1] > 3 * heights[2]
    placement_page.locator("[data-table=hot] button.link").first.click()
    assert placement_page.locator("#layer-chart rect.marked").count() == 2


def test_hottest_experts(placement_page: Page) -> None:
    table = rows(placement_page.locator("[data-table=hot]"))
    assert table[0] == ["0", "1.500×", "75.0 %", "2", "0.750×", "0, 1"]
    assert table[1] == ["3", "0.375×", "18.8 %", "1", "0.375×", "1"]


def test_what_holds_back_and_why_this_policy(placement_page: Page) -> None:
    binding = rows(placement_page.locator("[data-table=binding]"))
    assert sorted(row[:4] for row in binding) == [["nothing", "1", "0.0 %", "3"], ["packing", "1", "11.8 %", "4"]]
    policies = rows(placement_page.locator("[data-table=policy]"))
    assert [row[0].split()[0] for row in policies] == ["global", "hierarchical"]
    assert policies[0][1] == "270.0"
    assert "taken" in policies[0][0]
    assert "semi-hierarchical: not possible" in placement_page.locator("#ruled-out").inner_text()
    assert placement_page.locator("#policy-reason").inner_text().startswith("global is cheaper")


def test_moves(placement_page: Page) -> None:
    facts = placement_page.locator("#moves-facts").inner_text().split()
    assert {"132", "MB", "1.76", "ms"} <= set(facts)
    assert rows(placement_page.locator("[data-table=moves]")) == [["0", "2", "storage", "slot 2, GPU 0", "storage"]]
    placement_page.select_option("#layer-select", "0")
    assert [row[4] for row in rows(placement_page.locator("[data-table=moves]"))] == ["other node", "other node"]


def test_every_picture_names_layers_by_their_numbers_in_the_model(placement_page: Page) -> None:
    """Layers 3 and 4: no picture, table, tooltip or list knows a layer 0 or 1."""
    assert placement_page.locator("#layer-select option").all_inner_texts() == ["3", "4"]
    for chart in ("#certificate-chart", "#moves-layers"):
        ticks = placement_page.locator(f"{chart} text.tick").all_text_contents()
        assert ticks[-3:] == ["3", "4", "layer"]
        placement_page.locator(f"{chart} svg").focus()
        placement_page.keyboard.press("End")
        assert placement_page.locator("#tooltip").inner_text().startswith("Layer 4")
        placement_page.keyboard.press("Escape")
    placement_page.evaluate("""() => {
      const draw = CanvasRenderingContext2D.prototype, write = draw.fillText;
      window.bold = [];
      draw.fillText = function (text, ...at) {
        if (this.font.startsWith("bold")) window.bold.push(text);
        write.call(this, text, ...at);
      };
    }""")
    placement_page.locator("#layer-prev").click()
    placement_page.locator("#layer-next").click()
    wait_until(placement_page, "() => window.bold.includes('4')")
    assert set(placement_page.evaluate("window.bold")) <= {"3", "4"}  # beside the map, in its margin
    assert placement_page.locator("#layer-title").inner_text() == "Layer 4"
    assert placement_page.locator("#moves-title").inner_text() == "Moves of layer 4"
    assert "in layer 4" in (placement_page.locator("#layer-chart svg").get_attribute("aria-label") or "")


def test_without_a_placement_before_the_published_eplb_stands_beside(open_html: Any) -> None:
    document = documents.placement(moves=None, next_windows=None)
    document["gpu_load"]["before"]["label"] = "the published EPLB by node"
    assert page_words(documents.read(document))["before"] == "published EPLB by node"
    page = open_html(documents.page(document))
    text = page.locator("main").inner_text()
    assert "published EPLB by node" in page.locator("#maps").inner_text()
    assert page.locator("#certificate .legend").inner_text().startswith("published EPLB by node")
    assert not re.search(r"\b[Bb]efore\b", text.split("DEFINITIONS")[0].split("Definitions")[0])
    assert card(page, "bound") == "0.9706"
    assert "No window after these loads is known" in page.locator("#account").inner_text()


def test_by_layer_chart_answers_keys(placement_page: Page) -> None:
    placement_page.locator("#certificate-chart svg").focus()
    placement_page.keyboard.press("End")
    assert "11.8 %" in placement_page.locator("#tooltip").inner_text()
    placement_page.keyboard.press("Home")
    placement_page.keyboard.press("Enter")
    assert placement_page.evaluate("weftrace.layer()") == 0


def test_a_bare_placement_shows_what_it_has(open_html: Any) -> None:
    page = open_html(documents.page(documents.bare_placement()))
    assert page.locator("canvas[data-map]").count() == 1
    for hidden in ("#policy", "#moves", "#binding-box", ".key-before >> nth=0"):
        assert page.locator(hidden).is_hidden()
    assert page.locator("nav a:visible").count() == 4


def test_a_policy_that_was_asked_for_has_no_costs(open_html: Any) -> None:
    choice = {"costs": [], "reason": "policy 'global' was asked for", "assumptions": [], "ruled_out": []}
    page = open_html(documents.page(documents.placement(choice=choice)))
    assert page.locator("#policy-reason").inner_text() == "policy 'global' was asked for"
    for hidden in ("#policy-costs", "#ruled-out", "#assumption-box"):
        assert page.locator(hidden).is_hidden()


def test_lost_gpus_are_said(open_html: Any) -> None:
    page = open_html(documents.page(documents.large_placement(3, 16, 24, 8, 2, dead=(3,))))
    assert "1 GPU out of service" in page.locator("#facts").inner_text()
    page.locator("#maps").scroll_into_view_if_needed()
    scrolled(page)
    place = page.evaluate("weftrace.place('after', 0, 3)")
    page.mouse.move(place["x"], place["y"])
    assert "Layer 3, GPU 3, node 0: dead" in page.locator("#tooltip").inner_text()


def test_first_screen_of_a_replay(replay_page: Page) -> None:
    assert replay_page.locator("#recommendation").inner_text().startswith("balance+resplit on the mean of 4 windows")
    parts = replay_page.locator("[data-part]").evaluate_all(
        "(all) => all.map((row) => [row.dataset.part, row.dataset.row])"
    )
    assert parts == [["recommended", "0"], ["cheaper", "2"], ["baseline", "1"], ["once", "3"], ["ceiling", "4"]]
    names = replay_page.locator("[data-part] small").all_inner_texts()
    assert names[:2] == ["balance+resplit on mean of 4, every 2 windows", "replan on ema of 4, every 2 windows"]
    assert names[3:] == ["planned once, on the first window", "an oracle that knows each window"]
    assert card(replay_page, "gain") == "+6.0 points"
    assert card(replay_page, "ceiling") == "3.0 points"
    assert card(replay_page, "cheaper") == "5.0 % moved"


@pytest.mark.parametrize("num_windows", [6, 24, 25, 200])
def test_windows_are_named_by_whole_numbers(open_html: Any, num_windows: int) -> None:
    page = open_html(documents.page(documents.large_replay(num_windows)))
    ticks = page.locator("#moved-chart text.tick[text-anchor=middle]").all_text_contents()
    numbers = [int(text) for text in ticks]
    step = numbers[1]
    assert str(step).rstrip("0") in ("1", "2", "5")
    assert numbers == list(range(0, num_windows, step))


def test_rows_come_and_go(replay_page: Page) -> None:
    lines = replay_page.locator("#series-chart path.series")
    assert lines.count() == 5
    replay_page.locator("[data-table=rows] tbody tr", has_text="replan").click()
    assert lines.count() == 4
    replay_page.locator("[data-point='2']").focus()
    assert "balancedness" in replay_page.locator("#tooltip").inner_text()
    replay_page.keyboard.press("Enter")
    assert lines.count() == 5
    assert sorted(replay_page.evaluate("weftrace.shown()")) == [0, 1, 2, 3, 4]


def test_rows_sort(replay_page: Page) -> None:
    table = replay_page.locator("[data-table=rows]")
    assert [row[4] for row in rows(table)] == ["0.9900", "0.9600", "0.9550", "0.9000", "0.8000"]
    table.locator("[data-sort=moved_fraction]").click()
    assert [row[7] for row in rows(table)][-1] == "0.0 %"
    table.locator("[data-sort=moved_fraction]").click()
    assert next(row[7] for row in rows(table)) == "0.0 %"


def test_a_window_tells_all_rows(replay_page: Page) -> None:
    replay_page.locator("#series-chart svg").focus()
    replay_page.keyboard.press("Home")
    assert "not scored" in replay_page.locator("#tooltip").inner_text()
    replay_page.keyboard.press("ArrowRight")
    replay_page.keyboard.press("ArrowRight")
    tip = replay_page.locator("#tooltip").inner_text().split("\n")
    assert tip[0] == "Window 2"
    assert dict(zip(tip[1::2], tip[2::2], strict=True))["baseline"] == "0.9000"


@pytest.mark.parametrize(
    "make", [lambda: documents.page(documents.placement()), lambda: documents.page(documents.replay())]
)
def test_every_term_has_its_definition(open_html: Any, make: Any) -> None:
    page = open_html(make())
    terms = page.evaluate("[...new Set([...document.querySelectorAll('[data-def]')].map((e) => e.dataset.def))]")
    assert len(terms) > 8
    assert page.evaluate("(terms) => terms.every((t) => document.getElementById(`def-${t}`))", terms)


def test_dark_maps_follow_the_theme(open_html: Any) -> None:
    page = open_html(documents.page(documents.placement()), color_scheme="light")
    picture = "document.querySelector('canvas[data-map=after]').toDataURL()"
    light = page.evaluate(picture)
    page.click("#theme")
    wait_until(page, f"(before) => {picture} !== before", arg=light)


def test_hostile_text_does_not_run(open_html: Any) -> None:
    document = documents.placement(source=ATTACK, solver_of_layer=[ATTACK] * 2)
    document["gpu_load"]["before"]["label"] = document["choice"]["reason"] = ATTACK
    page = open_html(documents.page(document))
    assert page.locator("#policy-reason").inner_text() == ATTACK
    replay = documents.replay(source=ATTACK)
    replay["recommendation"]["text"] = replay["rows"][0]["solver"] = replay["rows"][0]["estimator"] = ATTACK
    other = open_html(documents.page(replay))
    assert other.locator("#recommendation").inner_text() == ATTACK
    for opened in (page, other):
        assert opened.evaluate("window.pwned") is None
        assert opened.locator("img, iframe").count() == 0
