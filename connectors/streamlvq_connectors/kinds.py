"""What cells, bytes and lines are to the scanner.

Numba does not notice when these change: delete its cache then.
"""

SKIP, NUMBER, TEXT, QUOTED, CONSTANT = range(5)  # what a cell is taken for
PLAIN, DELIMITER, NEWLINE, QUOTE, ESCAPE = range(5)  # what a byte may be
GOOD, ODD = range(2)  # what became of a line
