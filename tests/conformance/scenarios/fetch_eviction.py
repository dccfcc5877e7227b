"""Fetch sessions in a full cache: needs max.incremental.fetch.session.cache.slots=8."""

from tests.conformance.transcript import scenario

F = "fetch_eviction"


def fill_cache(s, t, parts=1, tries=10):
    ids = []
    for _ in range(tries):
        i = s.raw(None, "Fetch", 12, s.fetch_body([(t, [(p, 1) for p in range(parts)])], epoch=0))[
            "sessionId"
        ]
        if i:
            ids.append(i)
    return ids


def close(s, t, ids):
    for i in ids:
        s.raw(None, "Fetch", 12, s.fetch_body([], sid=i, epoch=-1))


@scenario(F, optional=True)
def evict_full_cache_gives_no_session(s):
    t = s.topic("a", 3)
    [s.fill(t, 1, p) for p in range(3)]
    ids = fill_cache(s, t)
    s.note("sessions given", len(ids))
    s.fetch([(t, [(0, 0)])], "cache full: answered in full with session 0", epoch=0)
    s.fetch([(t, [(0, 0), (1, 0), (2, 0)])], "a larger one does not evict young sessions", epoch=0)
    s.fetch([], "an existing one goes on", sid=ids[0], epoch=1)
    close(s, t, ids)


@scenario(F, optional=True)
def evict_closed_session_frees_slot(s):
    t = s.topic()
    s.fill(t, 1)
    ids = fill_cache(s, t)
    close(s, t, ids[:2])
    more = fill_cache(s, t)
    s.note("given, given again after closing two", "%d, %d" % (len(ids), len(more)))
    s.fetch([], "closed id", sid=ids[0], epoch=1)
    s.fetch([], "other id", sid=ids[2], epoch=1)
    close(s, t, ids[2:] + more)
