"""HERO cards in virtual machines: hero-device behind QEMU, Debian's kernels in front of it."""
