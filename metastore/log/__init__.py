"""An append-only log of opaque entries: what it calls durable stays, and what it cannot prove it refuses.

The idea. Durability of many small writes costs one `fdatasync` per group, and a cheap one, if the group is
one contiguous write into blocks that the disk has already allocated. So the log is a row of segment files,
zero-filled ahead of the write position; a group of entries is one *frame*, written at once and made durable
by one `sync`. An entry is bytes. It has an *offset*, counted from the first entry ever, and its group's time.

What it promises.
- A frame is there as a whole or not at all. Entries below `durable_end` survive a kill and a power cut, and
  only they can be read.
- At opening, a last frame that never reached the disk completely is cut off, for it was never acknowledged. A
  frame that was changed after it had been written is told apart from that, and refuses the opening
  (`LogDamaged`), as do missing, foreign and newer files.
- Opening reads the newest segment only, however much is retained; a read walks over a bounded piece of one.
- A full disk (`LogFull`) changes nothing, for space is claimed before it is needed. Appends marked
  `from_reserve` may go on for `reserve_bytes` more, so that what frees space can still be logged.
- A failed sync stops the log (`LogFailed`): nobody knows then what the disk holds, so nothing more is
  promised until it is opened again, and opening writes the doubtful frames once more before it trusts them.

What it refuses. It knows nothing of what entries mean, repairs no damage, and never rewrites or reorders. It
guards its directory against no second process: the owner of the directory does, and keeps its own files out
of it. One thread at a time may append, sync, trim and close; any number may read meanwhile, and other processes may
follow (`follower`).

Start reading at `log` (the door: append, sync, read, trim), then `format` (the bytes), `recovery` (the
judgement over a torn tail), `tail` (space), `segment` and `index` (reading), `directory` (files and chain).
"""

from metastore.log.errors import LogDamaged, LogError, LogFailed, LogFull, LogTrimmed
from metastore.log.follower import LogFollower, LogPlace
from metastore.log.format import FRAME_BYTES_MAX, Frame
from metastore.log.inspection import SegmentReport, inspect
from metastore.log.log import Log
from metastore.log.options import LogOptions

__all__ = [
    "FRAME_BYTES_MAX",
    "Frame",
    "Log",
    "LogDamaged",
    "LogError",
    "LogFailed",
    "LogFollower",
    "LogFull",
    "LogOptions",
    "LogPlace",
    "LogTrimmed",
    "SegmentReport",
    "inspect",
]
