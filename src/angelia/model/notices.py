"""What a person reads from the gateway itself. Each fits into the smallest text limit (64)."""

from __future__ import annotations

INTERRUPTED_TWICE = "I was interrupted twice while answering. Please send that again."
AGENT_FAILED = "Something went wrong while answering. Please try again."
AGENT_TIMED_OUT = "That took too long, so I stopped. Please try again."
AGENT_SAID_NOTHING = "I found no answer to that. Please try again or rephrase it."
NEW_CONVERSATION = "A new conversation begins. I no longer see the earlier one."
STOPPED = "Stopped."
NOTHING_TO_STOP = "There is nothing to stop."
NOTHING_TO_EXPLAIN = "There is no answer here yet that I could explain."
HELP = "Commands: /new, /stop, /why, /help (or with ! instead of /)."
