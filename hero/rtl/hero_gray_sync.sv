// A counter seen from another clock: Gray code through two flip-flops, then binary again. It must not change by more
// than one a source cycle. `dst` is late by 4 cycles, never wrong.
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
    (* keep *) reg [WIDTH-1:0] gray;
    (* keep, async_reg = "true" *) reg [WIDTH-1:0] gray_meta, gray_sync;
    reg [WIDTH-1:0] binary;
    integer i;

`ifdef FORMAL
    // A flip-flop whose input changes at its clock edge may take the old or the new value, independently for each bit
    (* anyseq *) wire [WIDTH-1:0] late;
    reg [WIDTH-1:0] gray_before = 0, gray_seen = 0;  // before its last change; at the last edge here
    always @(posedge src_clk) gray_before <= gray;
    always @(posedge dst_clk) gray_seen <= gray;
    wire [WIDTH-1:0] crossing = gray ^ late & (gray ^ gray_before) & (gray ^ gray_seen);
    initial {gray, gray_meta, gray_sync, dst} = 0;
`else
    wire [WIDTH-1:0] crossing = gray;
`endif

    always @(posedge src_clk) gray <= src_rst ? {WIDTH{1'b0}} : src ^ (src >> 1);

    always @*
        for (i = 0; i < WIDTH; i = i + 1) binary[i] = ^(gray_sync >> i);

    always @(posedge dst_clk)
        if (dst_rst) begin
            gray_meta <= 0;
            gray_sync <= 0;
            dst <= 0;
        end else begin
            gray_meta <= crossing;
            gray_sync <= gray_meta;
            dst <= binary;
        end
endmodule

`default_nettype wire
