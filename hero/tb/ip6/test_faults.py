"""That the benches of single modules find faults planted in what is there for IPv6."""

import pytest

from run import HERO, plant, run

# The bench of a module: its top, modules, parameters
BENCHES = {
    "hero_rx_input.test_hero_rx_input": ("hero_rx_input", ["hero_rx_ip6", "hero_rx_input"], {"ROUTES6": 4}),
    "hero_match.test_hero_match6": ("hero_match", ["hero_ram", "hero_match6", "hero_match"], {"ROUTES6": 4}),
    "hero_extract.test_hero_extract": ("hero_extract", ["hero_extract"], {"ROUTES6": 4}),
}
RX, MATCH, EXTRACT = BENCHES

# What stands for a fault: bench, module, text, what takes its place, and the test that must fail
FAULTS = {
    "link_local_is_routed": (RX, "hero_rx_ip6", " || word[55:48] == 8'hfe && word[63:62] == 2'b10", "", "addresses_of_ip6"),
    "link_local_is_shorter": (RX, "hero_rx_ip6", " && word[63:62] == 2'b10", "", "addresses_of_ip6"),
    "multicast_is_routed": (RX, "hero_rx_ip6", "word[55:48] == 8'hff || ", "", "addresses_of_ip6"),
    "source_is_not_looked_at": (RX, "hero_rx_ip6", "src_local || dst_local", "dst_local", "addresses_of_ip6"),
    "loopback_is_routed": (RX, "hero_rx_ip6", " || src_zeros || dst_zeros", " || src_zeros", "addresses_of_ip6"),
    "mapped_source_is_routed": (RX, "hero_rx_ip6", " || src_zeros || dst_zeros", " || dst_zeros", "addresses_of_ip6"),
    "two_octets_of_zeros_do": (RX, "hero_rx_ip6", "src_zeros && word[47:0] == 0", "src_zeros", "addresses_of_ip6"),
    "options_are_routed": (RX, "hero_rx_ip6", "next_header == HOP_BY_HOP || ", "", "random_frames"),
    "any_length_fits": (RX, "hero_rx_ip6", "needed_octets <= {1'b0, octets}", "1'b1", "random_frames"),
    "an_octet_is_missing": (RX, "hero_rx_ip6", "17'd54", "17'd53", "random_frames"),
    "any_version": (RX, "hero_rx_input", "version == 6 && fits", "fits", "random_frames"),
    "second_octet_is_tos": (RX, "hero_rx_input", "{ihl, tos[7:4]}", "tos", "random_frames"),
    "first_write_is_late": (MATCH, "hero_match6", " || wr && cfg_row == row_rd", "", "a_word_written_in_a_search"),
    "off_is_for_the_next": (MATCH, "hero_match6", "off[cfg_row] <= 1'b1", "off[cfg_row + 3'd1] <= 1'b1", "missing_and_unused"),
    "any_bank": (MATCH, "hero_match6", "number <= {2'b0, LAST}", "1'b1", "missing_and_unused"),
    "octets_too_many": (MATCH, "hero_match6", "length[7:3] > octet", "length[7:3] >= octet", "each_length"),
    "last_route_not_read": (MATCH, "hero_match6", "row_last <= row_rd == LAST", "row_last <= row_rd == LAST - 3'd1", "lowest_wins"),
    "none_is_a_peer": (MATCH, "hero_match", "found6 ? dest6 : hero_pkg::DEST_HOST", "dest6", "missing_and_unused"),
    "addresses_of_ip4_match": (MATCH, "hero_match", "ip6 && i > 0 ? 16'hffff : ", "", "classes"),
    "both_search": (MATCH, "hero_match", "scanning <= !ip6", "scanning <= 1", "random_searches"),
    "hop_limit_where_ttl_is": (EXTRACT, "hero_extract", "edited[47:40] = rd_data[47:40] - 8'd1", "edited[55:48] = rd_data[55:48] - 8'd1", "ip6"),
    "checksum_in_an_address": (EXTRACT, "hero_extract", "3: if (!ip6) edited", "3: edited", "ip6"),
    "no_class": (EXTRACT, "hero_extract", "match_prio && ip}", "match_prio && ip4}", "ip6"),
    "no_route": (EXTRACT, "hero_extract", "own && ip && !rd_meta", "own && ip4 && !rd_meta", "ip6"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name):
    bench, module, old, new, testcase = FAULTS[name]
    top, modules, parameters = BENCHES[bench]
    faulty = plant(f"ip6/{name}", HERO / "rtl" / f"{module}.sv", old, new)
    sources = [faulty if each == module else each for each in modules]
    with pytest.raises(AssertionError, match=f"{bench}.* on icarus"):
        run(top, sources, bench, "icarus", parameters, testcase=testcase)


@pytest.mark.slow
@pytest.mark.parametrize("bench", BENCHES)
def test_nothing_is_found_without_a_fault(bench):
    """What a fault's test fails for is the fault."""
    top, modules, parameters = BENCHES[bench]
    run(top, modules, bench, "icarus", parameters, testcase=sorted({fault[4] for fault in FAULTS.values() if fault[0] == bench}))
