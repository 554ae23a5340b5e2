# Timing of hero_card. Nothing is known of the clocks' relation; what crosses does so in the ways below, and in no other
# (hero/crossings.py looks for them in the netlist).
create_clock -name rx_clk -period 8.000 [get_ports rx_clk]
create_clock -name tx_clk -period 8.000 [get_ports tx_clk]
create_clock -name sys_clk -period 10.000 [get_ports sys_clk]

# Counters in Gray code (hero_gray_sync): one bit changes a source cycle, which holds at the other end while the bits' ways
# differ by less than that cycle. Without a bound, placement could make them differ by more. There is no hold time to keep.
set_max_delay 8.000 -from [get_cells -hierarchical {*gray[*]}] -to [get_cells -hierarchical {*gray_meta[*]}]
set_false_path -hold -from [get_cells -hierarchical {*gray[*]}] -to [get_cells -hierarchical {*gray_meta[*]}]

# Words in the memories between clocks (hero_ram) are read two cycles of the reader or more after they were written.
set_max_delay 8.000 -from [get_clocks rx_clk] -through [get_cells -hierarchical {*memory*words*}] -to [get_clocks sys_clk]
set_max_delay 8.000 -from [get_clocks sys_clk] -through [get_cells -hierarchical {*memory*words*}] -to [get_clocks tx_clk]

# Single bits: resets of the line's clocks, set without an edge (release_sync) and seen by sys_clk (seen_meta); the link.
# Only from the reset: the ways between the registers of release_sync are short, or what is undecided does not settle.
set_false_path -from [get_cells -hierarchical {*core_rst*}] -to [get_cells -hierarchical {*release_sync*}]
set_false_path -to [get_cells -hierarchical {*seen_meta*}]
set_false_path -to [get_cells -hierarchical {*link_meta*}]
