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
    (* keep *) reg [WIDTH-1:0] gray, gray_meta, gray_sync;
    reg [WIDTH-1:0] binary;
    integer i;

    always @(posedge src_clk) gray <= src_rst ? {WIDTH{1'b0}} : src ^ (src >> 1);

    always @*
        for (i = 0; i < WIDTH; i = i + 1) binary[i] = ^(gray_sync >> i);

    always @(posedge dst_clk)
        if (dst_rst) begin
            gray_meta <= 0;
            gray_sync <= 0;
            dst <= 0;
        end else begin
            gray_meta <= gray;
            gray_sync <= gray_meta;
            dst <= binary;
        end
endmodule

`default_nettype wire
