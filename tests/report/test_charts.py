"""Labels of charts: which are drawn, so that none covers another one."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.report.charts import Axis, Chart, dot

PHONE, HEIGHT = 240, 220
POINTS = st.lists(
    st.tuples(
        st.floats(1, 9), st.floats(0, 9), st.sampled_from(["", "1.25", "\u00b7the", "\u65e5\u672c"])
    ),
    max_size=12,
)


def chart_of(points, kind=""):
    axis = Axis(low=0, high=10)
    marks = [dot((x, y), kind="dot", title="", label=label) for x, y, label in points]
    return Chart(title="", description="", x=axis, y=axis, marks=marks, height=HEIGHT, kind=kind)


def rectangle(chart, mark):
    """Return left, bottom, right and top in pixels, of 8 for each character of ASCII."""
    (x, y), *_ = mark.points
    width = sum(8 if char < "\x80" else 12.5 for char in mark.label)
    left = x / 10 * PHONE + (-8 - width if chart.is_left(mark) else 8)
    return left, y / 10 * HEIGHT, left + width, y / 10 * HEIGHT + 14


def overlap(one, other):
    return all(
        one[side] < other[side + 2] - 1e-6 and other[side] < one[side + 2] - 1e-6 for side in (0, 1)
    )


@given(POINTS, st.sampled_from(["", "rising"]))
def test_no_label_covers_another_and_none_is_left_out_without_need(points, kind):
    chart = chart_of(points, kind)
    drawn = chart.labeled()
    places = {id(mark): rectangle(chart, mark) for mark in chart.marks}
    for one, other in combinations(drawn, 2):
        assert not overlap(places[id(one)], places[id(other)])
    kept = {id(mark) for mark in drawn}
    later = []
    for mark in reversed([mark for mark in chart.marks if mark.label]):
        free = not any(overlap(places[id(mark)], places[id(other)]) for other in later)
        assert (id(mark) in kept) == free
        later += [mark] if id(mark) in kept else []


def test_the_last_of_labels_that_are_close_is_drawn():
    chart = chart_of([(1, 1, "1.20"), (8.6, 8, "3.67"), (8.9, 8.3, "3.98")], "rising")
    assert [mark.label for mark in chart.labeled()] == ["3.98", "1.20"]
