// A FIFO of words between an assembler and the DMA engine, so that a transaction that has begun never waits for its words.
`default_nettype none

module hero_stage #(
    parameter WORDS = 256  // power of two
) (
    input  wire                   clk,
    input  wire                   rst,  // empties it, too
    input  wire                   wr_valid,
    output wire                   wr_ready,
    input  wire [           63:0] wr_data,
    output reg  [$clog2(WORDS):0] level,  // words, from the write to the reader's handshake
    output reg                    rd_valid,
    input  wire                   rd_ready,
    output reg  [           63:0] rd_data
);
    localparam AW = $clog2(WORDS);

    // Memory, its output register `q`, the reader's register
    reg [AW-1:0] wr_ptr, rd_ptr;
    reg [AW:0] count;  // words in the memory
    reg q_valid;
    wire [63:0] q_data;

    wire write = wr_valid && wr_ready;
    wire take = rd_valid && rd_ready;
    wire out_move = !rd_valid || rd_ready;
    wire q_move = !q_valid || out_move;
    wire fetch = q_move && count != 0;
    assign wr_ready = !level[AW];

    hero_ram #(.WIDTH(64), .WORDS(WORDS)) memory (
        .wr_clk(clk), .wr_en(write), .wr_addr(wr_ptr), .wr_data(wr_data),
        .rd_clk(clk), .rd_en(q_move), .rd_addr(rd_ptr), .rd_data(q_data)
    );
    always @(posedge clk) if (out_move) rd_data <= q_data;

    always @(posedge clk)
        if (rst) begin
            wr_ptr <= 0;
            rd_ptr <= 0;
            count <= 0;
            level <= 0;
            q_valid <= 0;
            rd_valid <= 0;
        end else begin
            if (write) wr_ptr <= wr_ptr + 1'b1;
            if (fetch) rd_ptr <= rd_ptr + 1'b1;
            count <= count + {{AW{1'b0}}, write} - {{AW{1'b0}}, fetch};
            level <= level + {{AW{1'b0}}, write} - {{AW{1'b0}}, take};
            if (q_move) q_valid <= fetch;
            if (out_move) rd_valid <= q_valid;
        end

`ifdef FORMAL
    reg past = 0;
    always @(posedge clk) past <= 1;
    initial assume (rst);
    always @(posedge clk)
        if (past && !rst) begin
            level_adds_up: assert ({2'd0, level} == count + q_valid + rd_valid && level <= WORDS);
            if ($past(rd_valid && !rd_ready && !rst)) p9_word: assert (rd_valid && $stable(rd_data));
        end
`endif
endmodule

`default_nettype wire
