"""Runs on an emulated CPU: executes one instruction, given in hexadecimal, and prints "done"."""

from __future__ import annotations

import ctypes
import mmap
import sys

RETURN = 0xD65F03C0


def main() -> None:
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    for word in (int(sys.argv[1], 16), RETURN):
        code.write(word.to_bytes(4, "little"))
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    ctypes.CFUNCTYPE(None)(address)()
    print("done")


if __name__ == "__main__":
    main()
