"""Every bound of the house: its name with the unit last, its value, its reason.

The bounds of guarantees §6 are the design; none of them is a setting.
"""

from __future__ import annotations

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# -- redelivery (guarantees §6) -------------------------------------------------------------
redeliveries_max = 3  # per delivery, those that counted; the first send is not one
backoff_first_ms = 30 * SECOND_MS  # before the 1st redelivery after Unconfirmed or Refused
backoff_second_ms = 2 * MINUTE_MS  # before the 2nd, likewise
backoff_second_death_ms = 30 * SECOND_MS  # before the 2nd after a death: a crash loop burns nothing
backoff_third_ms = 2 * MINUTE_MS  # before the 3rd, which is left for the next start
rate_limit_second_ms = 30 * SECOND_MS  # rate-limited: the 2nd redelivery not before this …
not_sent_first_ms = 1 * SECOND_MS  # NotSent: grows by doubling …
not_sent_most_ms = 30 * SECOND_MS  # … up to this
freshness_ms = DAY_MS  # nothing goes out later than this after it was written
keyed_retries_s = (1.0, 2.0)  # the same revision under the same key, within the pass (§4.1)
look_up_after_ms = 30 * SECOND_MS  # an earlier look-up proves no absence (§4.2)
moves_max = 2  # more moves than this are Refused
marker_age_min_ms = 10 * MINUTE_MS  # an older redelivery says when it was written

# -- memory of the store -------------------------------------------------------------------
retention_ms = 7 * DAY_MS  # final rows, attempts, inbound keys; owed rows are never pruned
inbound_fresh_ms = DAY_MS  # an older inbound starts no turn

# -- ownership -----------------------------------------------------------------------------
lease_ms = 15 * SECOND_MS
lease_renew_every_s = 5.0
guard_recheck_ms = 1 * SECOND_MS  # a claim older than this is read again before the first byte

# -- turns ---------------------------------------------------------------------------------
turn_timeout_s = 600.0  # an agent's time limit, unless its settings say another
pieces_most_s = 10.0  # a turn waits this long for what a client split, after each piece
pieces_max = 100  # of one turn
interruptions_max = 1  # a turn runs again once
runs_at_once_max = 64  # agents running at the same time, over all conversations
unprotected_after_s = 60.0  # store not writable for this long: the answer is sent unprotected

# -- stopping ------------------------------------------------------------------------------
drain_turns_s = 30.0
drain_sends_s = 10.0

# -- loops ---------------------------------------------------------------------------------
poll_every_s = 1.0  # every wake-up is a hint; polling the store is the truth
prune_every_s = 600.0
sends_at_once_max = 256  # wire calls in flight, per adapter
reconnect_first_s = 1.0
reconnect_most_s = 300.0
suspend_gap_ms = 30 * SECOND_MS  # civil time ran ahead by this much: rebuild the adapters

# -- borders -------------------------------------------------------------------------------
id_characters_max = 512  # an id longer than this is refused at the border
text_characters_max = 1_000_000
store_patience_s = 30.0  # how long a verb waits for a locked store
