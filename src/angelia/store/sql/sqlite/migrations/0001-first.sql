-- The first schema. Rules that must never be broken live here, not in Python:
-- uniqueness is dedup, final states stay final, fences only grow, owed rows are never deleted.
-- Times are milliseconds since the epoch: *_at of the civil clock, due_at/set_at/until of the
-- steady one (see seams/clock.py). '' stands for "none" in thread, reply_to and receipt.

CREATE TABLE owners (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    kind         TEXT NOT NULL CHECK (kind IN ('daemon', 'library')),
    start_number INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    lease_until  INTEGER NOT NULL,
    gone_at      INTEGER
) STRICT;

CREATE TABLE chats (
    profile        TEXT NOT NULL,
    platform       TEXT NOT NULL,
    chat           TEXT NOT NULL,
    unreachable_at INTEGER,
    detail         TEXT NOT NULL DEFAULT '',
    moved_to       TEXT,
    PRIMARY KEY (profile, platform, chat)
) STRICT, WITHOUT ROWID;

CREATE TABLE waits (
    profile  TEXT NOT NULL,
    platform TEXT NOT NULL,
    scope    TEXT NOT NULL CHECK (scope IN ('bot', 'chat', 'method')),
    subject  TEXT NOT NULL,
    set_at   INTEGER NOT NULL,
    until    INTEGER NOT NULL,
    PRIMARY KEY (profile, platform, scope, subject)
) STRICT, WITHOUT ROWID;

CREATE TABLE conversations (
    profile    TEXT NOT NULL,
    platform   TEXT NOT NULL,
    chat       TEXT NOT NULL,
    thread     TEXT NOT NULL,
    number     INTEGER NOT NULL,
    since_turn INTEGER NOT NULL,
    PRIMARY KEY (profile, platform, chat, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    seq           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    profile       TEXT NOT NULL,
    platform      TEXT NOT NULL,
    chat          TEXT NOT NULL,
    thread        TEXT NOT NULL,
    kind          TEXT NOT NULL CHECK (kind IN ('message', 'command')),
    state         TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'answered', 'gave_up')),
    reason        TEXT NOT NULL DEFAULT '',
    received_at   INTEGER NOT NULL,
    ended_at      INTEGER,
    interruptions INTEGER NOT NULL DEFAULT 0,
    burst         TEXT NOT NULL DEFAULT '',
    pieces_until  INTEGER,
    owner         TEXT,
    fence         INTEGER NOT NULL DEFAULT 0,
    CHECK ((state = 'running') = (owner IS NOT NULL))
) STRICT;
CREATE INDEX turns_open ON turns (profile, platform, chat, thread, seq) WHERE state IN ('waiting', 'running');
CREATE INDEX turns_by_chat ON turns (profile, platform, chat, seq);
CREATE INDEX turns_ended ON turns (ended_at) WHERE state IN ('answered', 'gave_up');

CREATE TRIGGER turns_stay_final BEFORE UPDATE OF state ON turns
WHEN OLD.state IN ('answered', 'gave_up') AND NEW.state <> OLD.state
BEGIN SELECT RAISE(ABORT, 'a turn that has ended stays ended'); END;

CREATE TABLE inbound (
    id          INTEGER PRIMARY KEY,
    profile     TEXT NOT NULL,
    platform    TEXT NOT NULL,
    chat        TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    thread      TEXT NOT NULL,
    user        TEXT NOT NULL,
    user_name   TEXT NOT NULL,
    text        TEXT NOT NULL,
    reply_to    TEXT NOT NULL,
    attachments TEXT,
    sent_at     INTEGER,
    first_seen_at INTEGER NOT NULL,
    turn        TEXT NOT NULL,
    UNIQUE (profile, platform, chat, message_id)
) STRICT;
CREATE INDEX inbound_by_turn ON inbound (turn);
CREATE INDEX inbound_attachments ON inbound (id) WHERE attachments IS NOT NULL;

-- In the order in which they began (rowid): a stepped clock must not turn a story around.
CREATE TABLE model_runs (
    id            TEXT NOT NULL UNIQUE,
    turn          TEXT NOT NULL,
    owner         TEXT NOT NULL,
    model         TEXT NOT NULL,
    started_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    ending        TEXT CHECK (ending IN ('answered', 'error', 'timeout', 'empty', 'fallback',
                                         'interrupted', 'drained', 'stopped')),
    detail        TEXT NOT NULL DEFAULT '',
    input_tokens  INTEGER,
    output_tokens INTEGER,
    CHECK ((ending IS NULL) = (ended_at IS NULL))
) STRICT;
CREATE INDEX model_runs_by_turn ON model_runs (turn);

CREATE TABLE deliveries (
    seq             INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    turn            TEXT UNIQUE,
    again_of        TEXT,
    origin          TEXT NOT NULL CHECK (origin IN ('turn', 'notice', 'again')),
    profile         TEXT NOT NULL,
    platform        TEXT NOT NULL,
    chat            TEXT NOT NULL,
    thread          TEXT NOT NULL,
    reply_to        TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('pending', 'attempting', 'failed', 'delivered', 'abandoned')),
    reason          TEXT NOT NULL DEFAULT '',
    due_at          INTEGER,
    due_set_at      INTEGER NOT NULL,
    written_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    owner           TEXT,
    fence           INTEGER NOT NULL DEFAULT 0,
    version         INTEGER NOT NULL DEFAULT 0,
    tries           INTEGER NOT NULL DEFAULT 0 CHECK (tries BETWEEN 0 AND 3),
    not_sent        INTEGER NOT NULL DEFAULT 0,
    moves           INTEGER NOT NULL DEFAULT 0,
    rerouted        INTEGER NOT NULL DEFAULT 0,
    anchor_dropped  INTEGER NOT NULL DEFAULT 0,
    requested       INTEGER NOT NULL DEFAULT 0,
    inherited_doubt INTEGER NOT NULL DEFAULT 0,
    unprotected     INTEGER NOT NULL DEFAULT 0,
    -- Parked: it may have arrived in a life of this store that is not on record, so it asks first.
    -- Released: the number of its first attempt after somebody said that it shall go.
    parked          INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)),
    released        INTEGER NOT NULL DEFAULT 0,
    CHECK (parked = 0 OR (due_at IS NULL AND owner IS NULL)),
    CHECK ((state = 'attempting') = (owner IS NOT NULL)),
    CHECK ((state IN ('delivered', 'abandoned')) = (ended_at IS NOT NULL)),
    CHECK (state <> 'abandoned' OR reason IN ('unreachable', 'tries_used_up', 'stale', 'cancelled', 'rejected'))
) STRICT;
CREATE INDEX deliveries_owed ON deliveries (profile, platform, chat, thread, seq)
    WHERE state IN ('pending', 'attempting', 'failed');
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE state IN ('pending', 'failed');
CREATE INDEX deliveries_claimed ON deliveries (owner) WHERE state = 'attempting';
CREATE INDEX deliveries_by_lane ON deliveries (profile, platform, chat, thread, seq);
CREATE INDEX deliveries_again ON deliveries (again_of) WHERE again_of IS NOT NULL;
CREATE INDEX deliveries_ended ON deliveries (ended_at) WHERE state IN ('delivered', 'abandoned');

CREATE TRIGGER deliveries_stay_final BEFORE UPDATE OF state ON deliveries
WHEN OLD.state IN ('delivered', 'abandoned') AND NEW.state <> OLD.state
BEGIN SELECT RAISE(ABORT, 'delivered and abandoned are final'); END;

CREATE TRIGGER deliveries_fence_grows BEFORE UPDATE OF fence ON deliveries WHEN NEW.fence < OLD.fence
BEGIN SELECT RAISE(ABORT, 'fences only grow'); END;

CREATE TRIGGER deliveries_owed_stay BEFORE DELETE ON deliveries
WHEN OLD.state IN ('pending', 'attempting', 'failed')
BEGIN SELECT RAISE(ABORT, 'owed rows are never deleted'); END;

-- With row numbers: texts are long, so they are appended in the order of time instead of being
-- sorted into a tree of random ids, which would touch a page of its own for each.
CREATE TABLE parts (
    delivery TEXT NOT NULL,
    number   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    parent   INTEGER,
    text     TEXT NOT NULL,
    attachment TEXT,
    replaced INTEGER NOT NULL DEFAULT 0,
    receipt  TEXT,
    PRIMARY KEY (delivery, number),
    CHECK (text <> '' OR attachment IS NOT NULL)
) STRICT;
-- What lies in the spool only because a part names it.
CREATE INDEX parts_attachment ON parts (delivery) WHERE attachment IS NOT NULL;
CREATE INDEX parts_receipt ON parts (receipt) WHERE receipt IS NOT NULL AND receipt <> '';

-- A receipt is a fact: once written it is neither changed nor taken back.
CREATE TRIGGER parts_keep_receipt BEFORE UPDATE OF receipt ON parts
WHEN OLD.receipt IS NOT NULL AND NEW.receipt IS NOT OLD.receipt
BEGIN SELECT RAISE(ABORT, 'a receipt is kept'); END;

CREATE TABLE revisions (
    delivery TEXT NOT NULL,
    part     INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    role     TEXT NOT NULL CHECK (role IN ('content', 'line')),
    text     TEXT,
    format   TEXT NOT NULL CHECK (format IN ('markdown', 'plain')),
    target   INTEGER NOT NULL,
    marker   INTEGER NOT NULL,
    doubt    INTEGER NOT NULL,
    PRIMARY KEY (delivery, part, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
    delivery        TEXT NOT NULL,
    number          INTEGER NOT NULL,
    part            INTEGER NOT NULL,
    revision        INTEGER NOT NULL,
    fence           INTEGER NOT NULL,
    owner           TEXT NOT NULL,
    start           INTEGER NOT NULL,
    started_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    ending          TEXT,
    detail          TEXT NOT NULL DEFAULT '',
    absent          INTEGER NOT NULL DEFAULT 0,
    looked_up_fence INTEGER,
    PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID;
-- Whose store this is, and how far its life has come; the home keeps the same two beside it, so
-- that an old copy put back is known as one (store/pulse.py).
CREATE TABLE pulse (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    store TEXT NOT NULL,
    beats INTEGER NOT NULL
) STRICT;
INSERT INTO pulse VALUES (1, lower(hex(randomblob(10))), 0);

-- At most one call of a delivery is in flight.
CREATE UNIQUE INDEX attempts_one_in_flight ON attempts (delivery) WHERE ending IS NULL;
