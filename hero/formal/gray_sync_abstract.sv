// hero_gray_sync as the proof of hero_async_fifo shows it: late by any time, never wrong. For proofs in which one clock stands
// for both: a side that is slow is one that waits.
`default_nettype none

module hero_gray_sync #(
    parameter WIDTH = 5
) (
    input  wire             src_clk,
    input  wire             src_rst,
    input  wire [WIDTH-1:0] src,
    input  wire             dst_clk,
    input  wire             dst_rst,
    output reg  [WIDTH-1:0] dst
);
    (* anyseq *) wire [WIDTH-1:0] step;
    wire [WIDTH-1:0] behind = src - dst;
    initial dst = 0;
    always @(posedge dst_clk) begin
        assume (step <= behind);
        dst <= dst_rst ? {WIDTH{1'b0}} : dst + step;
    end
endmodule

`default_nettype wire
