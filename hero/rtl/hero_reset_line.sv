// Reset of the logic on one of the line's clocks, which may stand still. It begins with the core's reset, without waiting
// for an edge, and ends with the fourth edge of `clk` after the core's. The sys_clk side of the crossing stays in reset
// until then, so that neither half continues before both were reset.
`default_nettype none

module hero_reset_line (
    input  wire sys_clk,
    input  wire core_rst,  // a flip-flop of sys_clk
    input  wire clk,
    output wire rst,       // in clk
    output wire sys_half   // in sys_clk
);
    (* keep, async_reg = "true" *) reg [3:0] release_sync;
    (* keep, async_reg = "true" *) reg seen_meta, seen_sync;
    assign rst = release_sync[3];
    assign sys_half = core_rst || seen_sync;

    // core_rst is synchronous elsewhere, but here the clock may have no edge
    // verilator lint_off SYNCASYNCNET
    always @(posedge clk or posedge core_rst)
        if (core_rst) release_sync <= 4'hf;
        else release_sync <= {release_sync[2:0], 1'b0};
    // verilator lint_on SYNCASYNCNET

    always @(posedge sys_clk)
        if (core_rst) {seen_sync, seen_meta} <= 2'b11;
        else {seen_sync, seen_meta} <= {seen_meta, rst};
`ifdef FORMAL
    // Holds from the first reset on, whatever the clocks do
    reg begun = 0;
    reg [2:0] edges = 0;  // of `clk` after the core's reset, to 4
    always @(posedge sys_clk) if (core_rst) begun <= 1;
    always @(posedge clk or posedge core_rst)
        if (core_rst) edges <= 0;
        else if (edges != 4) edges <= edges + 1'b1;

    always @*
        if (begun) begin
            with_the_core: assert (!core_rst || rst && sys_half);
            four_edges: assert (rst == (edges != 4));
            sys_half_last: assert (sys_half || !rst);
            // These make the proof inductive.
            as_many_edges: assert (release_sync == 4'hf << edges);
            seen_is_so: assert (core_rst || seen_sync && seen_meta || edges == 4);
        end
    always @(posedge sys_clk) c_over: cover (begun && !sys_half);
    always @(posedge sys_clk) c_stands_still: cover (begun && rst && !core_rst);
`endif
endmodule

`default_nettype wire
