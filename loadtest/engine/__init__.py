"""The engine: scenarios at the rates that are asked for, in one event loop; and that loop in a process of its own.

The idea. Our clients are asyncio over grpc.aio. locust is gevent: it patches threads, sockets and selectors of its
whole process. The two do not mix: under patched threads asyncio cannot tell event loops apart (gevent issues 2026 and
2213), and grpc's core has its own integration with gevent, `init_gevent`, which is for its synchronous calls only. So
locust's process has no gRPC in it, and the engine's has no gevent: locust starts the engine as a plain Python process
and exchanges lines with it over pipes, which gevent reads without blocking. Nothing that locust does (statistics, its
web pages) then delays an arrival.

    generator   `Generator`: scenarios, their pumps, their rates; for any program with an event loop
    messages    the lines
    process     the engine as a process: `python -m loadtest.engine`

A program that wants load without locust:

    async def load() -> Timeline:
        collected = Collected()
        settings = Settings(targets=("oxia://127.0.0.1:6648",), mark=new_mark())
        async with Generator({"metadata-mixed"}, settings, collected.record, collected.note) as generator:
            generator.set_rates({"metadata-mixed": 500.0})
            await asyncio.sleep(60)
            await generator.finish()
        return collected.timeline

    timeline = run_precisely(load())  # of loadtest.arrivals

What it promises. Outcomes are told in the order in which they became known, each once, and none is dropped: an engine
whose reader falls behind by OUTCOMES_HELD_MAX fails. It ends when its standard input does.

What it refuses. It starts no service, and it does not judge.

Start reading at generator.py.
"""

from loadtest.engine.generator import Collected, Generator

__all__ = ["Collected", "Generator"]
