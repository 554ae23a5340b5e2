// Reset of what runs with one of the line's clocks, which may stand still: it begins with the core's, without waiting for
// an edge, and ends with the fourth edge of `clk` after the core's. What faces that clock in sys_clk stays in reset until
// then, so neither half of a crossing goes on before both were reset.
`default_nettype none

module hero_reset_line (
    input  wire sys_clk,
    input  wire core_rst,  // a flip-flop of sys_clk
    input  wire clk,
    output wire rst,       // in clk
    output wire sys_half   // in sys_clk
);
    (* keep, async_reg = "true" *) reg [3:0] release_sync;
    (* keep, async_reg = "true" *) reg [1:0] seen_sync;
    assign rst = release_sync[3];
    assign sys_half = seen_sync[1];

    always @(posedge clk or posedge core_rst)
        if (core_rst) release_sync <= 4'hf;
        else release_sync <= {release_sync[2:0], 1'b0};

    always @(posedge sys_clk)
        if (core_rst) seen_sync <= 2'b11;
        else seen_sync <= {seen_sync[0], rst};
endmodule

`default_nettype wire
