// hero_ram, but what is read is anything: for proofs that do not speak of what the words say, which are much faster so.
`default_nettype none

module hero_ram #(
    parameter WIDTH = 64,
    parameter WORDS = 16,
    parameter AW = WORDS > 1 ? $clog2(WORDS) : 1
) (
    input  wire             wr_clk,
    input  wire             wr_en,
    input  wire [   AW-1:0] wr_addr,
    input  wire [WIDTH-1:0] wr_data,
    input  wire             rd_clk,
    input  wire             rd_en,
    input  wire [   AW-1:0] rd_addr,
    output reg  [WIDTH-1:0] rd_data
);
    (* anyseq *) wire [WIDTH-1:0] word;
    always @(posedge rd_clk) if (rd_en) rd_data <= word;
endmodule

`default_nettype wire
