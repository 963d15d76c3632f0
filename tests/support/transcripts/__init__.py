"""Recorded conversations with a real Oxia server, played against a server under test.

The idea: a recording says what was sent and what came back, with variables where a value may differ from run
to run (version ids, sessions, times). Playing it sends the same and compares everything, so that a server is
faithful not where somebody thought of a test, but wherever the recorded one was asked.

A recording is a JSON file about one topic: the server it needs, and cases of steps. Steps call a method to
its end (`call`), keep streams (`open`, `send_on`, `expect_on`, `close`, `ended`, `cancel`), wait (`sleep_ms`)
or restart the server (`restart`). A case may ask for a new server (`fresh`) or the older service name
(`service`). What upstream does by accident is marked `quirk`: such a case is not played, such a step is
played but not compared.

It promises that every judged step is compared in full: a field too many is as wrong as one too few. It
refuses to judge what the recording itself calls an accident, and to go on after the server process has died.

Start reading at `player.py`; `matching.py` judges answers, `messages.py` turns JSON into messages and back.
"""
