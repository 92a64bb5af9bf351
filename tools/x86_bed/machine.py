"""One emulated x86-64 machine: its disk, its Bochs configuration, one run of one program.

The machine boots guest/reset.S, which reads the disk made here and starts guest/supervisor.cpp;
that runs one static Linux program in user mode and reports through the parallel port.
"""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECTOR = 512
CYLINDER = 16 * 63 * SECTOR  # of the geometry that Bochs assumes
MEMORY_MIB = 512

# Where things are loaded; guest/supervisor.cpp states the map.
BOOT_INFO = 0x6000
STRINGS = 0x7000
STRINGS_BYTES = 0x8000
SUPERVISOR = 0x100000
PROGRAM = 256 << 20
INPUT = 320 << 20
MEMORY_END = MEMORY_MIB << 20

# State components of XCR0 (Intel SDM vol. 1, 13.1).
XCR0_SSE = 0x003  # x87 and XMM
XCR0_AVX = 0x007  # and the upper halves of YMM
XCR0_AVX512 = 0x0E7  # and opmask, the upper halves of ZMM0-15, ZMM16-31

STDOUT, STDERR, EXIT, FAULT = 1, 2, 3, 4
FAULT_NAMES = {
    0: "divide error",
    6: "illegal instruction",
    13: "general protection",
    14: "page fault",
}


class BedError(RuntimeError):
    """The bed can't be built or run; the message says what to do."""


@dataclass(frozen=True)
class Fault:
    """An exception that ended the run."""

    vector: int
    error: int
    instruction: int
    address: int
    in_user_mode: bool

    def __str__(self) -> str:
        name = FAULT_NAMES.get(self.vector, f"exception {self.vector}")
        where = "the program" if self.in_user_mode else "the bed's supervisor"
        text = f"{name} in {where} at {self.instruction:#x}"
        return f"{text}, touching {self.address:#x}" if self.vector == 14 else text


@dataclass(frozen=True)
class Outcome:
    """What the program wrote and how it ended: `status` is None exactly when `fault` isn't."""

    stdout: bytes
    stderr: str
    status: int | None
    fault: Fault | None

    def check(self) -> Outcome:
        """Returns itself.

        Raises:
            BedError: the program faulted or didn't exit with 0.
        """
        if self.fault is not None:
            raise BedError(f"{self.fault}\n{self.stderr}".strip())
        if self.status != 0:
            raise BedError(f"the program exited with {self.status}\n{self.stderr}".strip())
        return self


def boot_disk(
    supervisor: bytes,
    program: bytes,
    *,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    stdin: bytes,
    xcr0: int,
) -> bytes:
    """Disk image in the format that guest/reset.S reads."""
    variables = [f"{key}={value}" for key, value in environment.items()]
    strings = b"".join(text.encode() + b"\0" for text in [*arguments, *variables])
    if len(strings) > STRINGS_BYTES:
        raise BedError(f"arguments and environment take {len(strings)} > {STRINGS_BYTES} bytes")
    if len(program) > INPUT - PROGRAM or len(stdin) > MEMORY_END - INPUT:
        raise BedError(
            f"the program ({len(program)} bytes) or its input ({len(stdin)} bytes) is too large"
        )
    info = struct.pack(
        "<8Q",
        PROGRAM,
        len(program),
        INPUT,
        len(stdin),
        STRINGS,
        len(arguments),
        len(variables),
        xcr0,
    )
    contents = [
        (BOOT_INFO, info),
        (STRINGS, strings),
        (SUPERVISOR, supervisor),
        (PROGRAM, program),
        (INPUT, stdin),
    ]
    table = struct.pack("<4I", SUPERVISOR, 0, 0, 0)
    body = bytearray()
    for address, data in contents:
        sectors = -(-len(data) // SECTOR)
        if sectors == 0:
            continue
        table += struct.pack("<3I", address, 1 + len(body) // SECTOR, sectors)
        body += data + bytes(sectors * SECTOR - len(data))
    image = table.ljust(SECTOR, b"\0") + body
    return image + bytes(-len(image) % CYLINDER)


def parse_packets(sent: bytes) -> Outcome | None:
    """What the supervisor sent; None when it did not come to an end."""
    output = {STDOUT: bytearray(), STDERR: bytearray()}
    at = 0
    while at + 5 <= len(sent):
        kind, size = struct.unpack_from("<BI", sent, at)
        payload = sent[at + 5 : at + 5 + size]
        at += 5 + size
        if len(payload) != size:
            return None
        status: int | None = None
        fault: Fault | None = None
        if kind in output:
            output[kind] += payload
            continue
        if kind == EXIT:
            (status,) = struct.unpack("<I", payload)
        elif kind == FAULT:
            vector, error, instruction, address, user = struct.unpack("<5Q", payload)
            fault = Fault(vector, error, instruction, address, bool(user))
        else:
            raise BedError(f"the guest sent a packet of unknown kind {kind}")
        text = output[STDERR].decode(errors="replace")
        return Outcome(bytes(output[STDOUT]), text, status, fault)
    return None


def _configuration(
    *, model: str, exclude: Sequence[str], firmware: Path, video: Path, folder: Path
) -> str:
    # Ticks are instructions: no part of the guest waits for time, so the rate is immaterial.
    excluded = f', exclude_features="{",".join(exclude)}"' if exclude else ""
    return f"""\
plugin_ctrl: unmapped=1, parallel=1, serial=0, biosdev=0, speaker=0, gameport=0
display_library: term
cpu: model={model}, count=1, ips=100000000, reset_on_triple_fault=0, ignore_bad_msrs=1{excluded}
memory: guest={MEMORY_MIB}, host={MEMORY_MIB}
romimage: file={firmware}, address=0xffff0000
vgaromimage: file={video}
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=disk, path={folder / "disk.img"}, mode=flat, cylinders=0
parport1: enabled=1, file={folder / "sent"}
clock: sync=none, time0=utc
panic: action=fatal
error: action=report
info: action=ignore
debug: action=ignore
log: {folder / "log"}
"""


def run(
    root: Path,
    firmware: Path,
    disk: bytes,
    *,
    model: str,
    exclude: Sequence[str] = (),
    time_limit: float = 300.0,
) -> Outcome:
    """Boots `disk` on CPU `model` of Bochs (unpacked as `root`) and waits for its end.

    Raises:
        BedError: the emulator ended, or was ended after `time_limit` seconds, before the program.
    """
    libraries = root / "usr/lib/x86_64-linux-gnu"
    environment = {
        **os.environ,
        "BXSHARE": str(root / "usr/share/bochs"),
        "LTDL_LIBRARY_PATH": str(libraries / "bochs/plugins"),
        "TERM": "xterm",
        "TERMINFO": str(root / "usr/share/terminfo"),
    }
    with tempfile.TemporaryDirectory(prefix="x86-bed-") as name:
        folder = Path(name)
        (folder / "disk.img").write_bytes(disk)
        (folder / "bochsrc").write_text(
            _configuration(
                model=model,
                exclude=exclude,
                firmware=firmware,
                video=root / "usr/share/bochs/VGABIOS-lgpl-latest",
                folder=folder,
            )
        )
        command = [
            root / "usr/lib64/ld-linux-x86-64.so.2",
            "--library-path",
            f"{libraries}:{libraries / 'pulseaudio'}",
            root / "usr/bin/bochs-bin",
            "-q",
            "-f",
            folder / "bochsrc",
        ]
        try:
            # Its exit code says nothing: Bochs takes the guest's power-off for a panic.
            subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=time_limit,
            )
        except subprocess.TimeoutExpired:
            raise BedError(f"the emulated {model} did not finish in {time_limit:.0f} s") from None
        sent = folder / "sent"
        outcome = parse_packets(sent.read_bytes() if sent.exists() else b"")
        if outcome is None:
            log = folder / "log"
            tail = log.read_text(errors="replace").splitlines()[-12:] if log.exists() else []
            raise BedError("\n".join([f"the emulated {model} stopped early; Bochs's log:", *tail]))
        return outcome
