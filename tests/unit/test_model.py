from heliograph.model import Flow


def test_flows_of_the_same_clusters_are_the_same_flow() -> None:
    assert Flow("A", "B") == Flow("A", "B")
    assert hash(Flow("A", "B")) == hash(Flow("A", "B"))
    assert Flow("A", "B") != Flow("A", "C")
    assert Flow("A", "B") != Flow("C", "B")
    assert Flow("A", "B") != Flow("B", "A")
    assert str(Flow("A", "B")) == "A->B"


def test_a_flow_is_nothing_that_only_looks_like_one() -> None:
    lookalikes: list[object] = [("A", "B"), ["A", "B"], "A->B", None]
    assert Flow("A", "B") not in lookalikes
