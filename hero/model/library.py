"""The model library for Python: hero.h through ctypes."""

import ctypes

from . import build

ABI = 3
CARDS = 4
BAD_FCS, RX_ER, NO_PAD = 1, 2, 4
MAX_FRAME = 9216
MHZ_OF_MAC = 125
OCTET_NS = 8


class BadFrame(Exception):
    """A card sent a frame with a bad FCS, or without preamble."""


def load(path):
    """Loads the library and sets the signatures of hero.h."""
    lib = ctypes.CDLL(str(path))
    p, u32, u64, size = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t
    uint, data = ctypes.c_uint, ctypes.c_char_p
    for name, result, arguments in [
        ("hero_abi", u32, []),
        ("hero_new", p, []),
        ("hero_free", None, [p]),
        ("hero_parameter", ctypes.c_int64, [p, data]),
        ("hero_memory", p, [p, ctypes.POINTER(size)]),
        ("hero_now", u64, [p]),
        ("hero_run", None, [p, u64]),
        ("hero_run_until_irq", u32, [p, u64, u32]),
        ("hero_irq", u32, [p]),
        ("hero_read", u32, [p, uint, uint]),
        ("hero_write", None, [p, uint, uint, u32]),
        ("hero_receive", ctypes.c_int, [p, uint, data, size, u64, uint]),
        ("hero_set_link", None, [p, uint, ctypes.c_int]),
        ("hero_arriving", size, [p, uint]),
        ("hero_transmitted", ctypes.c_long, [p, uint, data, size, ctypes.POINTER(u64), ctypes.POINTER(u64)]),
    ]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    if lib.hero_abi() != ABI:
        raise RuntimeError(f"{path}: ABI {lib.hero_abi()}, {ABI} wanted")
    return lib


class Hero:
    """Four cards; `name` is a build of build.py. Times are ns of virtual time."""

    def __init__(self, name="xbar"):
        self.lib = load(build.library(name))
        self.h = self.lib.hero_new()
        if not self.h:
            raise MemoryError("hero_new")
        octets = ctypes.c_size_t()
        base = self.lib.hero_memory(self.h, ctypes.byref(octets))
        self.memory = memoryview((ctypes.c_uint8 * octets.value).from_address(base)).cast("B")
        self._frame = ctypes.create_string_buffer(MAX_FRAME + 4)
        self._first, self._last = ctypes.c_uint64(), ctypes.c_uint64()

    def close(self):
        self.memory.release()
        self.lib.hero_free(self.h)
        self.h = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def parameter(self, name):
        return self.lib.hero_parameter(self.h, name.encode())

    @property
    def now(self):
        return self.lib.hero_now(self.h)

    @property
    def irq(self):
        return self.lib.hero_irq(self.h)

    def run(self, ns):
        self.lib.hero_run(self.h, ns)

    def run_until(self, ns):
        self.lib.hero_run(self.h, max(0, ns - self.now))

    def run_until_irq(self, ns, cards=0xF):
        return self.lib.hero_run_until_irq(self.h, ns, cards)

    def read(self, card, reg):
        return self.lib.hero_read(self.h, card, reg)

    def write(self, card, reg, value):
        self.lib.hero_write(self.h, card, reg, value)

    def set_link(self, card, up):
        self.lib.hero_set_link(self.h, card, up)

    def receive(self, card, frame, at=0, faults=0):
        """Queues a frame; ValueError for what hero_receive refuses."""
        if self.lib.hero_receive(self.h, card, frame, len(frame), at, faults):
            raise ValueError(f"card {card}: frame of {len(frame)} octets refused")

    def arriving(self, card):
        return self.lib.hero_arriving(self.h, card)

    def transmitted(self, card):
        """The next frame a card sent as (frame, first, last), or None."""
        octets = self.lib.hero_transmitted(self.h, card, self._frame, MAX_FRAME, self._first, self._last)
        if octets == -1:
            return None
        if octets < 0:
            raise BadFrame(f"card {card}: {octets}")
        return ctypes.string_at(self._frame, octets), self._first.value, self._last.value
