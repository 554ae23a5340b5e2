"""A guest: one of Debian's kernels in QEMU, without KVM, with this machine's file system.

The root file system is read-only, with overlays where programs write; one folder is shared for the results.
The guest lives in PID and network namespaces of its own, so nothing of it outlives `run()` or a killed caller.
"""

import dataclasses
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / "target/vm/venv"
RUNS = ROOT / "target/vm/runs"
CPUS = 2
MEMORY = "3G"
CARDS_EACH = 4  # for each kind: host, router, router, host
TAP_QUEUES = CPUS
BOOT_SECONDS = float(os.environ.get("VM_BOOT_SECONDS", "150"))  # an idle machine needs a fifth
BOOTS = 4


@dataclasses.dataclass(frozen=True)
class Card:
    """A kind of network card: QEMU's device, Linux's driver; `taps` if it has several queues only on TAPs."""

    device: str
    driver: str
    taps: bool = False


CARDS = {
    "veth": None,  # made in the guest
    "virtio": Card("virtio-net-pci", "virtio_net"),
    "virtio-mq": Card("virtio-net-pci", "virtio_net", taps=True),
    "igb": Card("igb", "igb"),
    "e1000e": Card("e1000e", "e1000e"),
    "vmxnet3": Card("vmxnet3", "vmxnet3"),
}


class GuestError(Exception):
    """The guest could not be started."""


def kernel_release():
    """The release of the kernel that this runs on: (6, 12)."""
    return tuple(map(int, os.uname().release.split(".")[:2]))


def mac(kind, number):
    """MAC address of card `number` of a kind; the guest finds the card by it."""
    return f"52:54:00:bc:{list(CARDS).index(kind):02x}:{number:02x}"


def run(kernel, kinds, command, shared, seconds, append="", devices=(), cpus=CPUS, qemu=None, memory=MEMORY):
    """Boots `kernel` with four cards of each kind, runs `command` (a list) in it, and waits for its end.

    `shared` is a folder that both sides can write. The guest's console goes to shared/console.txt. `seconds` is what the command may
    take. A guest that does not boot is booted again, because emulated CPUs hang in it now and then. Returns whether the command ended,
    and if not, why. `devices` are options of QEMU that come before the cards; `qemu` is a program other than the machine's."""
    booted = shared / "booted"
    command = ["sh", "-c", f"touch {shlex.quote(str(booted))}; exec {shlex.join(command)}"]
    vng = shlex.join(_vng(kernel, kinds, command, shared, append, devices, cpus, qemu, memory))
    script = "\n".join([
        "set -e",
        f"PATH={shlex.quote(str(VENV))}/bin:$PATH",  # where vng finds its helper programs
        "sysctl -q -w net.unix.max_dgram_qlen=1000",  # else ten datagrams wait for QEMU, and more are lost
        *_network(kinds),
        f"exec {vng}",
    ])
    for attempt in range(1, BOOTS + 1):
        with open(shared / "console.txt", "w") as console, _alone(script, console) as child:
            try:
                if _ended(child, BOOT_SECONDS, booted):
                    return (True, None) if booted.exists() else (False, "the guest ended before its command began")
                if booted.exists():
                    return (True, None) if _ended(child, seconds) else (False, f"the guest was not done after {seconds:.0f} s")
            finally:
                child.kill()
        print(f"{kernel.version}: boot {attempt} of {BOOTS} took more than {BOOT_SECONDS:.0f} s", flush=True)
    return False, f"the guest did not boot, {BOOTS} times"


def _alone(script, console):
    """Starts a script with network and process namespaces of its own, which end with it or with this program."""
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console)


def _ended(child, seconds, until=None):
    """Waits until a process has ended, for `seconds` or until a file exists. True if it has ended."""
    end = time.monotonic() + seconds
    while child.poll() is None and time.monotonic() < end and not (until and until.exists()):
        time.sleep(0.2)
    return child.poll() is not None


def run_script(kernel, script, argument, binary, name, seconds, kinds=(), append="", devices=()):
    """Runs a guest's script (topic_guest.py) with one argument and with this Bora, in a folder `name`. Returns what it wrote, with the console's end
    if it failed, and whether all went well."""
    shared = RUNS / name
    shutil.rmtree(shared, ignore_errors=True)
    shared.mkdir(parents=True)
    bora, results = shared / "bora", shared / "results"
    subprocess.run(["strip", "-o", bora, binary], check=True)
    command = ["env", "PYTHONDONTWRITEBYTECODE=1", f"BORA={bora}", "/usr/bin/python3", str(script), argument, str(results)]
    _, why = run(kernel, kinds, command, shared, seconds, append, devices)
    text = results.read_text() if results.exists() else ""
    if text.endswith("done\n"):
        return text, True
    return f"{text}{why or 'the guest ended early'}; its console: {(shared / 'console.txt').read_text(errors='replace')[-3000:]}", False


def _vng(kernel, kinds, command, shared, append, devices, cpus, qemu, memory):
    program = VENV / "bin/vng"
    if not program.exists():
        raise GuestError(f"{program} is missing: run scripts/deps-vm")
    if not qemu and not shutil.which("qemu-system-x86_64"):
        raise GuestError("qemu-system-x86_64 is missing: run scripts/deps-vm")
    return [
        str(program), "--disable-kvm", "--disable-microvm", "--force-9p", "--run", str(kernel.image),
        *(["--qemu", str(qemu)] if qemu else []), "--cpus", str(cpus), "--memory", memory, "--verbose", "--rwdir", str(shared),
        "--append", f"quiet loglevel=3 net.ifnames=0 {append}".strip(),
        "--exec", shlex.join(command),
        "--qemu-opts=" + " ".join(["-machine q35", *devices, *_devices(kinds)]),
    ]


def _devices(kinds):
    """QEMU's options: cards of a kind are connected in pairs."""
    options = []
    for kind in kinds:
        for number in range(CARDS_EACH if CARDS[kind] else 0):
            card, name, chassis = CARDS[kind], f"{kind}-{number}", 1 + len(options)
            options.append(f"-device pcie-root-port,id=port-{name},chassis={chassis},slot={chassis}")
            queues = ""
            if card.taps:
                options.append(f"-netdev tap,id={name},ifname={_tap(number)},script=no,downscript=no,"
                               f"vhost=off,queues={TAP_QUEUES}")
                # Linux's driver does zero-copy only with address translation, as for other cards
                queues = f",mq=on,vectors={2 * TAP_QUEUES + 2},iommu_platform=on"
            else:
                options.append(f"-netdev hubport,id={name},hubid={10 * list(CARDS).index(kind) + number // 2}")
            options.append(f"-device {card.device},bus=port-{name},netdev={name},mac={mac(kind, number)}{queues}")
    return options


def _tap(number):
    return f"tap{number}"


def _network(kinds):
    """Commands that make the TAPs, in the guest's own network namespace: each pair is on a bridge without learning."""
    commands = []
    if any(CARDS[kind] and CARDS[kind].taps for kind in kinds):
        commands.append("sysctl -q -w net.ipv6.conf.default.disable_ipv6=1")
        for number in range(CARDS_EACH):
            bridge = f"wire{number // 2}"
            if number % 2 == 0:
                commands.append(f"ip link add {bridge} type bridge stp_state 0 mcast_snooping 0 ageing_time 0")
                commands.append(f"ip link set {bridge} up")
            commands.append(f"ip tuntap add dev {_tap(number)} mode tap multi_queue vnet_hdr")
            commands.append(f"ip link set {_tap(number)} master {bridge} up")
    return commands
