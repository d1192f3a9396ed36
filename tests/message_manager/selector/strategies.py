"""Random selectors as text, and random values for the names in them."""

from __future__ import annotations

from hypothesis import strategies as st

from tocsin.message_manager.selector.columns import Value

NAMES = ("a", "b", "c", "JMSPriority")

# Few different values, so that comparisons are often equal, with the ones that tempt Python into mistakes.
STRINGS = ("", "a", "ab", "b%", "it's", "TRUE", "1")
NUMBERS = (0, 1, -1, 2, 7, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 0.0, 1.0, -0.5, 1.5, 9007199254740992.0)


def values() -> st.SearchStrategy[Value]:
    return st.sampled_from((None, True, False, *STRINGS, *NUMBERS, float("nan"), float("inf")))


def rows() -> st.SearchStrategy[dict[str, Value]]:
    return st.fixed_dictionaries({}, optional={name: values() for name in NAMES})


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_names = st.sampled_from(NAMES)
_strings = st.sampled_from(STRINGS).map(_quoted)
_numbers = st.sampled_from(NUMBERS).map(repr)
_booleans = st.sampled_from(("TRUE", "false"))
_negation = st.sampled_from(("", "NOT "))
_equality = st.sampled_from(("=", "<>"))
_ordering = st.sampled_from(("=", "<>", ">", ">=", "<", "<="))


def _arithmetic() -> st.SearchStrategy[str]:
    def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        operators = st.sampled_from(("+", "-", "*", "/"))
        pair = st.builds("{} {} {}".format, inner, operators, inner)
        signed = st.builds("{} {}".format, st.sampled_from(("+", "-")), inner)
        return pair | signed | pair.map("({})".format)

    return st.recursive(_names | _numbers, deeper, max_leaves=4)


def _predicates(arithmetic: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    patterns = st.text("ab%_'", max_size=5).map(_quoted)
    items = st.lists(_strings, min_size=1, max_size=3).map(", ".join)
    anything = arithmetic | _strings | _booleans
    return st.one_of(
        _names,
        _booleans,
        st.builds("{} {} {}".format, arithmetic, _ordering, arithmetic),
        st.builds("{} {} {}".format, _names, _ordering, _numbers),
        st.builds("{} {} {}".format, _numbers, _ordering, _names),
        st.builds("{} {} {}".format, anything, _equality, anything),
        st.builds("{} {}BETWEEN {} AND {}".format, arithmetic, _negation, arithmetic, arithmetic),
        st.builds("{} {}IN ({})".format, _names, _negation, items),
        st.builds("{} {}LIKE {}".format, _names, _negation, patterns),
        st.builds("{} IS {}NULL".format, _names, _negation),
    )


def selectors() -> st.SearchStrategy[str]:
    def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        joined = st.builds("{} {} {}".format, inner, st.sampled_from(("AND", "OR", "and", "or")), inner)
        compared = st.builds("({}) {} ({})".format, inner, _equality, inner)
        return joined | joined.map("({})".format) | inner.map("NOT ({})".format) | compared

    return st.recursive(_predicates(_arithmetic()), deeper, max_leaves=6)


def near_selectors() -> st.SearchStrategy[str]:
    """Text made of the language's own pieces, mostly in a wrong order."""
    pieces = (
        "NOT AND OR BETWEEN LIKE IN IS NULL TRUE ESCAPE a $x JMSType JMSBad "
        "0 017 09 0x1F 7. .5 1e9 1e999 5L 5x ' '' "
        "'a' '!' ( ) , = <> >= < + - * / ; \u00e9 \u0661 \ud800 \x00 9223372036854775808"
    )
    return st.lists(st.sampled_from(pieces.split(" ")), max_size=14).map(" ".join) | st.text(max_size=30)
