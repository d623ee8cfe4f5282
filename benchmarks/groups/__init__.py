"""Groups that take turns, beside a plain queue, and how receiving depends on their number and depth."""
