from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from heliograph.connect.shares import Claim, plan_shares

NAMES = st.sets(st.sampled_from([f"c{n}" for n in range(12)]))
MEMBERS = [f"w{n}" for n in range(5)]


@st.composite
def honest_claims(draw: st.DrawFn) -> dict[str, Claim]:
    """Claims of a group in which no two workers run the same."""
    members = draw(st.sets(st.sampled_from(MEMBERS), min_size=1))
    owners = draw(
        st.dictionaries(
            st.sampled_from([f"c{n}" for n in range(12)]), st.sampled_from(sorted(members))
        )
    )
    return {m: Claim(frozenset(c for c, o in owners.items() if o == m), 3) for m in members}


ANY_CLAIMS = st.dictionaries(
    st.sampled_from(MEMBERS),
    st.builds(Claim, NAMES.map(frozenset), st.integers(-1, 5)),
)


def loads(shares: Mapping[str, frozenset[str]]) -> list[int]:
    return sorted((len(names) for names in shares.values()), reverse=True)


def next_claims(shares: Mapping[str, frozenset[str]], generation: int) -> dict[str, Claim]:
    return {member: Claim(names, generation) for member, names in shares.items()}


def test_three_connectors_of_one_worker_are_shared_with_a_second_in_two_steps() -> None:
    claims = {"a": Claim(frozenset({"x", "y", "z"}), 1), "b": Claim()}
    first = plan_shares(["x", "y", "z"], claims)
    assert first == {"a": {"x", "y"}, "b": set()}
    second = plan_shares(["x", "y", "z"], next_claims(first, 2))
    assert second == {"a": {"x", "y"}, "b": {"z"}}


def test_what_a_lost_worker_had_is_given_away_at_once() -> None:
    claims = {"b": Claim(frozenset({"z"}), 2)}
    assert plan_shares(["x", "y", "z"], claims) == {"b": {"x", "y", "z"}}


def test_a_claim_that_was_outlived_gives_way_to_the_later_one() -> None:
    claims = {"a": Claim(frozenset({"x"}), 2), "b": Claim(frozenset({"x"}), 4)}
    assert plan_shares(["x"], claims) == {"a": set(), "b": {"x"}}


def test_a_connector_that_was_deleted_is_nobodys() -> None:
    assert plan_shares([], {"a": Claim(frozenset({"x"}), 2)}) == {"a": set()}


@given(NAMES, ANY_CLAIMS)
def test_a_and_b_nobody_is_given_what_another_has(
    names: set[str], claims: dict[str, Claim]
) -> None:
    shares = plan_shares(names, claims)
    given_away = [name for share in shares.values() for name in share]
    assert len(given_away) == len(set(given_away))
    assert shares.keys() == claims.keys()
    for member, share in shares.items():
        assert share <= names
        for name in share - claims[member].connectors:
            assert not any(name in claim.connectors for claim in claims.values())


@given(NAMES, ANY_CLAIMS.filter(bool))
def test_c_what_nobody_claims_is_given_to_somebody(
    names: set[str], claims: dict[str, Claim]
) -> None:
    claimed = {name for claim in claims.values() for name in claim.connectors}
    assert names - claimed <= {n for share in plan_shares(names, claims).values() for n in share}


@given(NAMES, honest_claims())
def test_d_and_e_two_generations_level_the_load_and_then_nothing_moves(
    names: set[str], claims: dict[str, Claim]
) -> None:
    second = plan_shares(names, next_claims(plan_shares(names, claims), 4))
    assert sum(loads(second)) == len(names)
    assert loads(second)[0] - loads(second)[-1] <= 1
    assert plan_shares(names, next_claims(second, 5)) == second


@given(NAMES, honest_claims())
def test_the_order_of_names_and_workers_does_not_matter(
    names: set[str], claims: dict[str, Claim]
) -> None:
    backwards = dict(reversed(claims.items()))
    assert plan_shares(sorted(names), claims) == plan_shares(sorted(names, reverse=True), backwards)
