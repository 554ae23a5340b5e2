// hero_packet_fifo as its own proof shows it, with a reader that takes a word whenever the solver likes: levels without
// memories, for the proofs of what writes into it. The writer's duties are asserted.
`default_nettype none

module hero_packet_fifo #(
    parameter WORDS = 16,
    parameter PACKETS = 8,
    parameter WIDTH = 64
) (
    input  wire                     clk,
    input  wire                     rst,
    input  wire                     wr_valid,
    input  wire [        WIDTH-1:0] wr_data,
    input  wire                     wr_commit,
    input  wire [             15:0] wr_len,
    input  wire                     wr_abort,
    output reg  [  $clog2(WORDS):0] level,
    output reg  [  $clog2(WORDS):0] words,
    output wire [$clog2(PACKETS):0] packets,
    output wire                     rd_head,
    output wire [             15:0] rd_len,
    output wire                     rd_valid,
    input  wire                     rd_ready,
    output wire [        WIDTH-1:0] rd_data,
    output wire                     rd_last
);
    (* anyseq *) wire any_valid;
    (* anyseq *) wire [WIDTH-1:0] any_data;
    assign rd_valid = any_valid && words != 0;
    assign rd_data = any_data;
    assign rd_head = words != 0;
    assign rd_len = 0;
    assign rd_last = 0;
    assign packets = 0;

    wire take = rd_valid && rd_ready;
    always @(posedge clk)
        if (rst) begin
            level <= 0;
            words <= 0;
        end else begin
            level <= wr_abort ? words - take : level + wr_valid - take;
            words <= wr_commit && !wr_abort ? level + wr_valid - take : words - take;
        end

    initial assume (rst);
    always @(posedge clk)
        if (!rst) begin
            levels_in_range: assert (words <= level && level <= WORDS);
            written_with_room: assert (!wr_valid || level < WORDS);
        end
endmodule

`default_nettype wire
