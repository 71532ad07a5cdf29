"""How fast the ledger and the gateway are, with the peers beside us in the same run.

Nothing here is a test: figures depend on the machine, so they are printed and never
asserted. What *is* asserted is that the measured work was really done: every reply settled,
every message delivered once. ``bench/README.md`` says how to read the figures.
"""
