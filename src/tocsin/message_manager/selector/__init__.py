"""JMS message selectors: a condition on headers and properties, compiled once, evaluated on whole columns.

selector     the face: `compile_selector`, `Selector` with `matches` (a row) and `select` (a batch)
columns      what a selector reads from a batch: values, columns, one value for all rows
complaint    the error text, with a caret under the place
literals     Java's number syntax
tokens       text to tokens
syntax       the expression tree
cursor       a place in the tokens, and the bound on nesting
checks       what the types known from the text forbid
parser       tokens to a checked tree
like         LIKE patterns, matched in linear time
comparison   comparisons and connectives in three-valued logic
arithmetic   Java's arithmetic on long and double
pytree       pieces of Python's syntax tree
shortcuts    frequent predicates that need no call per row
cost         what asking about one message costs at most
codegen      the tree to one Python function for a row and one for columns
"""

from tocsin.message_manager.selector.columns import Column, Columns, Same, Value
from tocsin.message_manager.selector.selector import Selector, compile_selector

__all__ = ["Column", "Columns", "Same", "Selector", "Value", "compile_selector"]
