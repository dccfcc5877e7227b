"""A counterexample as a scene of the playground (`brokertwin/page/scenes.py`)."""

from typing import Any

import msgspec

from brokertwin.protocol.bodies import Body, render
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Send
from brokertwin.simulation.explore.machine import T0, settings_of
from brokertwin.simulation.explore.scripts import NotPlayableError
from brokertwin.simulation.explore.shown import Story
from brokertwin.simulation.explore.world import Happening, setup_of
from brokertwin.state.core.settings import BrokerSettings

SENT = (Happening.CALL, Happening.ARRIVAL)
CHOSEN = ("producerId", "memberId", "sessionId")
"""Ids in responses that the scene's broker chooses as the model's did."""


def scene_of(story: Story) -> dict[str, Any]:
    """Return the steps of a path, after those that prepare the cluster, which are hidden.

    Raises:
        NotPlayableError: the model has several brokers; a scene does not hold their messages.
    """
    model = story.model
    if model.cluster.brokers > 1:
        raise NotPlayableError("a scene does not hold back messages between brokers")
    settings = msgspec.to_builtins(settings_of(model.cluster).broker_settings)
    usual = msgspec.to_builtins(BrokerSettings())
    topics = {"topicIds": {name: requests.topic_id(name) for name in model.cluster.topics}}
    steps = [
        _step(send, "setup", "", topics) | {"hidden": True}
        for send in (*setup_of(model), *model.cluster.setup)
    ]
    for each in story.lines:
        note = "its response is lost" if each.is_lost else each.note
        note = f" ({note})" if note else ""
        if each.send is not None and each.kind in SENT:
            body = render(each.body, each.send.version) if isinstance(each.body, Body) else {}
            chosen = {name: body[name] for name in CHOSEN if body.get(name) not in (None, "", -1)}
            steps.append(_step(each.send, each.sender, each.text + note, chosen))
        elif each.kind is not Happening.RESPONSE:  # it is with the step that lets it go
            said = f"{each.sender} {each.text}{note}".strip()
            steps.append({"say": said, "after_ms": each.wait_ms})
    has_deleted = any(e.send is not None and e.send.api == "DELETE_RECORDS" for e in story.lines)
    for (topic, partition), names in story.committed.items():
        if names and not has_deleted:
            read = requests.fetch(topic, partition, 0, is_committed=True)
            said = f"A reader with read_committed gets {', '.join(names)}"
            steps.append(_step(read, "reader", said, {}))
    steps[-1]["say"] += f". Violated: {story.violation}"
    return {
        "title": model.name,
        "document": "a counterexample of explore",
        "about": f"{model.about}. {story.violation}",
        "brokers": [1],
        "begin": T0,
        "settings": {name: each for name, each in settings.items() if each != usual[name]},
        "steps": steps,
    }


def _step(send: Send, client: str, said: str, chosen: dict[str, Any]) -> dict[str, Any]:
    step = {"say": said, "client": client, "api": send.api, "version": send.version}
    return step | {
        "request": send.body,
        "nonce": send.nonce or client,
        "after_ms": 0,
        "choices": chosen,
    }
