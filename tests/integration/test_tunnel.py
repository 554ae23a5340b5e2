"""Tunnels of the kind that most kernels have, VXLAN: the engine does with them what Linux alone does. tests/vm/tunnel_guest.py has the other kinds."""

import pytest

from vm import tunnel_guest

pytestmark = [pytest.mark.bora, pytest.mark.alone]


@pytest.mark.slow
def test_what_happens_around_tunnels(say):
    """Paths get a smaller MTU, the near end's address goes to another router and comes back, IPsec policies come and go."""
    tunnels = [one for one in tunnel_guest.TUNNELS if tunnel_guest.VXLAN in one.protocols]
    different = tunnel_guest.compare_around(lambda: tunnel_guest.Lan(tunnels, {}, []), tunnels, say)
    assert different == 0, f"{different} steps differ"
