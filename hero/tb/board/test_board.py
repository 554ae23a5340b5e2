"""The bitstream of the ECP5 Versa board between two PHYs, and its RGMII with delays. The tools of hero/board work on it."""

import pytest
from run import HERO, plant, run

RTL = sorted(p for folder in ("rtl", "board/rtl") for p in (HERO / folder).glob("*.sv") if p.stem != "hero_pkg")
HERE = HERO / "tb" / "board"
RGMII = [HERO / "board" / "rtl" / f"{name}.sv" for name in ("hero_delay", "hero_rgmii_rx", "hero_rgmii_tx")]

# What stands for a fault in the RGMII: module, text, what takes its place
FAULTS = {
    "nibbles_swapped": ("hero_rgmii_rx", "{fall[3:0], rise[3:0]}", "{rise[3:0], fall[3:0]}"),
    "error_unread": ("hero_rgmii_rx", "rise[4] ^ fall[4]", "1'b0"),
    "error_unsent": ("hero_rgmii_tx", "gmii_tx_en ^ gmii_tx_er", "gmii_tx_en"),
    "clock_inverted": ("hero_rgmii_tx", ".D0(1'b1), .D1(1'b0)", ".D0(1'b0), .D1(1'b1)"),
    "only_up": ("hero_delay", "down <= way[7]", "down <= 1'b0"),
    "taps_more": ("hero_delay", "way[7] ? -way[6:0] : way[6:0]", "way[7] ? -way[6:0] + 7'd10 : way[6:0] + 7'd10"),
}


def rgmii(sources=RGMII, phy_ps=2000, inside_ps=1000, taps=39):
    parameters = {"PHY_PS": phy_ps, "INSIDE_PS": inside_ps, "RX_TAPS": taps}
    run("rgmii_tb", [*sources, HERE / "ecp5.sv", HERE / "rgmii_tb.sv"], "board.rgmii_cases", "icarus", parameters,
        defines={"HERO_DELAYS": 1}, environment={f"HERO_{name}": value for name, value in parameters.items()})


@pytest.mark.parametrize("phy_ps", (pytest.param(0, marks=pytest.mark.slow), 2000))
def test_rgmii(phy_ps):
    """With and without the delay in the PHY."""
    rgmii(phy_ps=phy_ps)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name):
    module, old, new = FAULTS[name]
    faulty = plant(f"board/faults/{name}", HERO / "board" / "rtl" / f"{module}.sv", old, new)
    with pytest.raises(AssertionError, match="board.rgmii_cases on icarus"):
        rgmii([faulty if path.stem == module else path for path in RGMII])


@pytest.mark.slow
def test_board():
    system = HERO / "tb" / "system"
    sources = [*RTL, system / "tb_gmii.sv", HERE / "ecp5.sv", HERE / "tb_phy.sv", HERE / "board_tb.sv"]
    run("board_tb", sources, "board.board_cases", public=False)
