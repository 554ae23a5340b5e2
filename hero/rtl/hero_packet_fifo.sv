// A FIFO of packets: words become visible to the reader when their packet is committed, and can be removed until then. The
// writer must check `level` and `packets` before it writes.
`default_nettype none

module hero_packet_fifo #(
    parameter WIDTH = 64,  // of a word; fewer in proofs only
    parameter WORDS = 4096,  // power of two
    parameter PACKETS = 1024  // power of two
) (
    input  wire                     clk,
    input  wire                     rst,
    // Writer: `wr_commit` comes with the last word or later; `wr_len` in octets must fit the words written. `wr_abort`
    // removes all words since the last commit, including one written in the same cycle, and overrides `wr_commit`.
    input  wire                     wr_valid,
    input  wire [        WIDTH-1:0] wr_data,
    input  wire                     wr_commit,
    input  wire [             15:0] wr_len,
    input  wire                     wr_abort,
    // Words and packets from the write to the reader's last handshake
    output reg  [  $clog2(WORDS):0] level,  // with words not committed
    output reg  [  $clog2(WORDS):0] words,  // of committed packets
    output reg  [$clog2(PACKETS):0] packets,
    // Reader: `rd_len` is the head's while `rd_head`; the next packet is shown the cycle after the last word is taken if
    // it was committed 5 cycles earlier.
    output wire                     rd_head,
    output wire [             15:0] rd_len,
    output wire                     rd_valid,
    input  wire                     rd_ready,
    output wire [        WIDTH-1:0] rd_data,
    output wire                     rd_last
);
    localparam AW = $clog2(WORDS);
    localparam PW = $clog2(PACKETS);

    wire commit = wr_commit && !wr_abort;
    wire take = rd_valid && rd_ready;
    wire take_last = take && rd_last;

    // Writer
    reg [AW-1:0] wr_ptr, packet_start;
    reg [PW-1:0] size_wr;
    wire [AW-1:0] wr_next = wr_ptr + {{AW - 1{1'b0}}, wr_valid};
    wire [AW:0] taken = {{AW{1'b0}}, take};
    wire [AW:0] level_written = level + {{AW{1'b0}}, wr_valid} - taken;

    always @(posedge clk)
        if (rst) begin
            wr_ptr <= 0;
            packet_start <= 0;
            size_wr <= 0;
            level <= 0;
            words <= 0;
            packets <= 0;
        end else begin
            wr_ptr <= wr_abort ? packet_start : wr_next;
            if (commit) packet_start <= wr_next;
            if (commit) size_wr <= size_wr + 1'b1;
            level <= wr_abort ? words - taken : level_written;
            words <= commit ? level_written : words - taken;
            packets <= packets + {{PW{1'b0}}, commit} - {{PW{1'b0}}, take_last};
        end

    // Sizes: read from the memory, then converted to words
    reg [PW-1:0] size_rd;
    reg [PW:0] size_count;  // in the memory
    wire [15:0] size_q;
    reg [15:0] next_len;
    wire [13:0] next_words = {1'b0, next_len[15:3]} + {13'b0, |next_len[2:0]};
    reg size_q_valid, next_valid;
    wire begin_packet;
    wire next_move = !next_valid || begin_packet;
    wire size_move = !size_q_valid || next_move;
    wire size_fetch = size_move && size_count != 0;

    hero_ram #(.WIDTH(16), .WORDS(PACKETS)) size_mem (
        .wr_clk(clk), .wr_en(commit), .wr_addr(size_wr), .wr_data(wr_len),
        .rd_clk(clk), .rd_en(size_move), .rd_addr(size_rd), .rd_data(size_q)
    );
    always @(posedge clk) if (next_move) next_len <= size_q;

    always @(posedge clk)
        if (rst) begin
            size_rd <= 0;
            size_count <= 0;
            size_q_valid <= 0;
            next_valid <= 0;
        end else begin
            if (size_fetch) size_rd <= size_rd + 1'b1;
            size_count <= size_count + {{PW{1'b0}}, commit} - {{PW{1'b0}}, size_fetch};
            if (size_move) size_q_valid <= size_count != 0;
            if (next_move) next_valid <= size_q_valid;
        end

    // Data: memory, its output register `q`, the reader's register `out`. Words of one packet after the head's may be
    // on their way already: `head_*` belongs to the reader, `behind_*` to that packet.
    reg [AW-1:0] rd_ptr;
    reg [13:0] left;  // words of the packet still in the memory
    reg fetching;  // left != 0
    reg q_valid, q_last, out_valid, out_last;
    wire [WIDTH-1:0] q_data;
    reg [WIDTH-1:0] out_data;
    reg head_valid, behind_valid;
    reg [15:0] head_len, behind_len;
    wire out_move = !out_valid || rd_ready;
    wire q_move = !q_valid || out_move;
    wire fetch = q_move && fetching;
    wire fetch_last = left == 14'd1;
    assign begin_packet = next_valid && !fetching && !behind_valid;

    hero_ram #(.WIDTH(WIDTH), .WORDS(WORDS)) data_mem (
        .wr_clk(clk), .wr_en(wr_valid), .wr_addr(wr_ptr), .wr_data(wr_data),
        .rd_clk(clk), .rd_en(q_move), .rd_addr(rd_ptr), .rd_data(q_data)
    );
    always @(posedge clk) begin
        if (q_move) q_last <= fetch_last;
        if (out_move) out_data <= q_data;
        if (out_move) out_last <= q_last;
    end

    always @(posedge clk)
        if (rst) begin
            rd_ptr <= 0;
            left <= 0;
            fetching <= 0;
            q_valid <= 0;
            out_valid <= 0;
        end else begin
            if (fetch) rd_ptr <= rd_ptr + 1'b1;
            if (begin_packet) left <= next_words;
            else if (fetch) left <= left - 1'b1;
            if (begin_packet) fetching <= 1;
            else if (fetch && fetch_last) fetching <= 0;
            if (q_move) q_valid <= fetching;
            if (out_move) out_valid <= q_valid;
        end

    // A packet that begins becomes the head, unless there is a head that stays
    wire to_head = begin_packet && !head_valid;
    always @(posedge clk)
        if (rst) begin
            head_valid <= 0;
            behind_valid <= 0;
        end else begin
            if (to_head || behind_valid && take_last) head_valid <= 1;
            else if (take_last) head_valid <= begin_packet;
            behind_valid <= behind_valid ? !take_last : begin_packet && head_valid && !take_last;
        end

    always @(posedge clk) begin
        if (to_head || take_last) head_len <= behind_valid ? behind_len : next_len;
        if (begin_packet) behind_len <= next_len;
    end

    assign rd_head = head_valid;
    assign rd_len = head_len;
    assign rd_valid = out_valid;
    assign rd_data = out_data;
    assign rd_last = out_last;

`ifdef FORMAL
    reg past = 0;
    always @(posedge clk) past <= 1;
    initial assume (rst);

    // The writer's side of the contract
    reg [AW:0] pending = 0;  // words not committed
    wire [AW:0] pending_now = pending + {{AW{1'b0}}, wr_valid};
    wire [13:0] len_words = {1'b0, wr_len[15:3]} + {13'b0, |wr_len[2:0]};
    always @(posedge clk) begin
        pending <= rst || wr_abort || wr_commit ? 0 : pending_now;
        if (!rst) begin
            if (wr_valid) assume (level < WORDS);
            if (commit) assume (packets < PACKETS && len_words != 0 && len_words == pending_now);
        end
    end

    // Levels
    always @(posedge clk)
        if (past && !rst) begin
            levels_in_range: assert (level <= WORDS && packets <= PACKETS);
            level_adds_up: assert (level == words + pending);
            word_of_a_packet: assert (!rd_valid || rd_head && words != 0);
            words_and_packets: assert ((words != 0) == (packets != 0));
        end

    // An arbitrary word, chosen by the solver, comes out unchanged and in order, or is removed
    (* anyseq *) wire mark_word;
    reg [AW:0] ahead;
    reg [WIDTH-1:0] marked;
    reg word_marked = 0, word_committed = 0;
    wire mark_word_now = mark_word && wr_valid && !word_marked && !wr_abort;
    always @(posedge clk) begin
        if (mark_word_now) begin
            word_marked <= 1;
            marked <= wr_data;
            ahead <= level - taken;
        end else if (word_marked && take) begin
            right_word: assert (ahead != 0 || word_committed && rd_data == marked);
            if (ahead == 0) word_marked <= 0;
            else ahead <= ahead - 1'b1;
        end
        if (wr_abort && !word_committed) word_marked <= 0;
        if (wr_commit && !wr_abort && (word_marked || mark_word_now)) word_committed <= 1;
        else if (!word_marked) word_committed <= 0;
        if (rst) {word_marked, word_committed} <= 0;
    end

    // An arbitrary packet comes out with its length and number of words
    (* anyseq *) wire mark_packet;
    reg [PW:0] packets_ahead;
    reg [15:0] packet_len;
    reg [13:0] packet_left;
    reg packet_marked = 0;
    always @(posedge clk) begin
        if (mark_packet && commit && !packet_marked) begin
            packet_marked <= 1;
            packet_len <= wr_len;
            packet_left <= len_words;
            packets_ahead <= packets - {{PW{1'b0}}, take_last};
        end else if (packet_marked && packets_ahead != 0) begin
            if (take_last) packets_ahead <= packets_ahead - 1'b1;
        end else if (packet_marked) begin
            if (rd_head) right_length: assert (rd_len == packet_len);
            if (take) right_last: assert (rd_last == (packet_left == 1));
            if (take) packet_left <= packet_left - 1'b1;
            if (take_last) packet_marked <= 0;
        end
        if (rst) packet_marked <= 0;
    end

    // P9: a word waits unchanged until it is taken
    always @(posedge clk)
        if (past && !$past(rst) && !rst && $past(rd_valid && !rd_ready)) begin
            p9_word: assert (rd_valid && $stable(rd_data) && $stable(rd_last) && $stable(rd_len));
        end

    always @(posedge clk)
        if (past && !rst) begin
            c_full: cover (level == WORDS);
            c_all_packets: cover (packets == PACKETS);
            c_taken_back: cover (wr_abort && pending != 0 && words != 0);
            c_second_packet: cover (packet_marked && packets_ahead == 0 && take_last && size_rd[0] == 0);
        end
`endif
endmodule

`default_nettype wire
