// Parses a burst: control words, packets for the FIFO, the END word with the next request. A violation of the protocol ends
// the grant and is counted.
`default_nettype none

module hero_burst #(
    parameter MTU_WORDS = 190,
    parameter MIN_WORDS = 8
) (
    input  wire        sys_clk,
    input  wire        rst,
    input  wire        valid,  // a word of a transaction
    input  wire [63:0] word,
    input  wire [15:0] words,  // of the length in `word`
    // The grant: whether there is one, whether this source has it, and the words left
    input  wire        open,
    input  wire        mine,
    input  wire [15:0] left_hi,
    input  wire [15:0] left_lo,
    output wire        spent_hi,
    output wire        spent_lo,
    output wire        ended,  // `word` is the END word, its bits 31:0 the next request
    output wire        fault,  // the grant is forfeit
    output wire        refused,  // with `valid`
    // FIFO
    output wire        wr_valid,
    output wire        wr_commit,
    output reg  [15:0] wr_len,
    output wire        wr_abort,
    // Pulses
    output wire        drop_no_grant,
    output wire        drop_over_grant,
    output wire        drop_malformed
);
    reg [15:0] left;  // words left of the current packet
    reg in_packet;  // left != 0
    reg high;
    reg [7:0] packets;  // of this burst
    wire heard = valid && mine;

    // Control words
    wire control = heard && !in_packet;
    wire [15:0] len = word[15:0];
    wire [15:0] room = word[16] ? left_hi : left_lo;
    wire packet_form = word[63:17] == {4'h1, 43'd0} && words >= MIN_WORDS[15:0] && words <= MTU_WORDS[15:0];
    wire end_form = word[63:32] == {4'h2, packets, 20'd0};
    wire packet = control && packet_form && words <= room;

    assign ended = control && end_form;
    assign drop_malformed = control && !packet_form && !end_form;
    assign drop_over_grant = control && packet_form && words > room;
    assign drop_no_grant = valid && !mine;
    assign fault = drop_malformed || drop_over_grant;
    assign refused = fault || drop_no_grant;

    // Data
    assign wr_valid = heard && in_packet;
    assign wr_commit = wr_valid && left == 1;
    assign spent_hi = wr_valid && high;
    assign spent_lo = wr_valid && !high;
    // Without a grant, no packet is unfinished.
    assign wr_abort = !open;

    always @(posedge sys_clk) begin
        if (packet) begin
            left <= words;
            in_packet <= 1;
            high <= word[16];
            wr_len <= len;
            packets <= packets + 1'b1;
        end
        if (wr_valid) begin
            left <= left - 1'b1;
            if (left == 1) in_packet <= 0;
        end
        if (rst || !open) begin
            in_packet <= 0;
            packets <= 0;
        end
    end

`ifdef FORMAL
    reg past = 0;
    always @(posedge sys_clk) past <= 1;
    initial assume (rst);

    // A packet begins only if the grant has room for all of it, and it ends with the grant.
    always @(posedge sys_clk)
        if (past && !rst) begin
            if (in_packet && open) packet_within_the_grant: assert (left != 0 && left <= (high ? left_hi : left_lo));
            if (!$past(open)) packet_ends_with_the_grant: assert (!in_packet);
        end
`endif
endmodule

`default_nettype wire
