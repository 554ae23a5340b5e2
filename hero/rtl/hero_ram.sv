// A memory with a writer and a reader. A read that coincides with the write of its word returns an undefined value, as in
// FPGAs. Simulation (the complement of the old word) and proofs (any value) do so too, so that no module can depend on it.
`default_nettype none

module hero_ram #(
    parameter WIDTH = 64,
    parameter WORDS = 16,
    parameter AW = WORDS > 1 ? $clog2(WORDS) : 1  // follows from WORDS
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
    (* no_rw_check *) reg [WIDTH-1:0] words[0:WORDS-1];

    always @(posedge wr_clk) if (wr_en) words[wr_addr] <= wr_data;

`ifdef SYNTHESIS
    wire [WIDTH-1:0] disturbed = 0;
`elsif FORMAL
    (* anyseq *) wire [WIDTH-1:0] any;
    wire [WIDTH-1:0] disturbed = wr_en && wr_addr == rd_addr ? any : {WIDTH{1'b0}};
`else
    wire [WIDTH-1:0] disturbed = {WIDTH{wr_en && wr_addr == rd_addr}};
`endif
    always @(posedge rd_clk) if (rd_en) rd_data <= words[rd_addr] ^ disturbed;
endmodule

`default_nettype wire
