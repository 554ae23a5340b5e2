// Carries received frames from rx_clk to sys_clk: words, and one meta for each frame. The reader learns of new words only by
// the metas' pointer, because all words of a frame are in the memory before its meta. A frame that does not fit is removed;
// its meta has OVERFLOW set and no words, like the metas of bad frames (`wr_abort`). Both sides are reset together.
`default_nettype none

module hero_cdc_fifo #(
    parameter WIDTH = 64,  // of a word; fewer in proofs only
    parameter CDC_WORDS = 256,  // power of two
    parameter METAS = 32,  // power of two
    parameter META_W = hero_pkg::META_W  // hero_pkg::META6_W with IPv6
) (
    // Writer: `wr_commit` or `wr_abort` follows each frame's last word
    input  wire                        rx_clk,
    input  wire                        rx_rst,
    input  wire                        wr_en,
    input  wire [           WIDTH-1:0] wr_data,
    input  wire                        wr_commit,
    input  wire                        wr_abort,
    input  wire [          META_W-1:0] wr_meta,
    // Reader: the words of the frame whose meta is shown; the meta is popped with the last of them or later
    input  wire                        sys_clk,
    input  wire                        sys_rst,
    output wire                        rd_meta_valid,
    output wire [          META_W-1:0] rd_meta,
    input  wire                        rd_meta_pop,
    output reg                         rd_valid,
    output reg  [           WIDTH-1:0] rd_data,
    output reg                         rd_last,
    input  wire                        rd_en,
    output wire                        lost  // pulse: a frame whose meta did not fit either
);
    localparam AW = $clog2(CDC_WORDS);

    // Writer
    reg [AW:0] wr_ptr, frame_start;
    wire [AW:0] rd_ptr_wr;
    reg overflow;
    wire full = wr_ptr == (rd_ptr_wr ^ {1'b1, {AW{1'b0}}});
    wire overflowed = overflow || wr_en && full;
    wire meta_full;
    wire keep = wr_commit && !overflowed && !meta_full;
    wire take_back = (wr_commit || wr_abort) && !keep;
    wire write = wr_en && !overflowed;
    wire [AW:0] wr_next = wr_ptr + {{AW{1'b0}}, write};

    always @(posedge rx_clk)
        if (rx_rst) begin
            wr_ptr <= 0;
            frame_start <= 0;
            overflow <= 0;
        end else begin
            wr_ptr <= take_back ? frame_start : wr_next;
            if (keep) frame_start <= wr_next;
            overflow <= overflowed && !wr_commit && !wr_abort;
        end

    // Metas, with a bit that is set if the frame has words
    reg [META_W-1:0] pushed;
    always @* begin
        pushed = wr_meta;
        if (wr_commit && overflowed) begin
            pushed[hero_pkg::META_OVERFLOW] = 1;
            pushed[hero_pkg::META_LEN+:16] = 0;
        end
    end
    wire has_words;
    hero_async_fifo #(
        .WIDTH(META_W + 1),
        .DEPTH(METAS)
    ) metas (
        .wr_clk  (rx_clk),
        .wr_rst  (rx_rst),
        .wr_en   ((wr_commit || wr_abort) && !meta_full),
        .wr_data ({keep, pushed}),
        .wr_full (meta_full),
        .rd_clk  (sys_clk),
        .rd_rst  (sys_rst),
        .rd_valid(rd_meta_valid),
        .rd_data ({has_words, rd_meta}),
        .rd_en   (rd_meta_pop)
    );

    // Reader: memory, its output register `q`, `rd_data`
    reg [AW:0] rd_ptr;
    reg [13:0] left;
    reg fetching, begun, q_valid, q_last;
    wire [WIDTH-1:0] q_data;
    wire [15:0] len = rd_meta[hero_pkg::META_LEN+:16];
    wire [13:0] frame_words = {1'b0, len[15:3]} + {13'b0, |len[2:0]};
    wire rd_move = !rd_valid || rd_en;
    wire q_move = !q_valid || rd_move;
    wire fetch = q_move && fetching;
    wire begin_frame = rd_meta_valid && !begun && has_words;

    hero_ram #(.WIDTH(WIDTH), .WORDS(CDC_WORDS)) memory (
        .wr_clk(rx_clk), .wr_en(write), .wr_addr(wr_ptr[AW-1:0]), .wr_data(wr_data),
        .rd_clk(sys_clk), .rd_en(q_move), .rd_addr(rd_ptr[AW-1:0]), .rd_data(q_data)
    );
    always @(posedge sys_clk) begin
        if (q_move) q_last <= left == 14'd1;
        if (rd_move) rd_data <= q_data;
        if (rd_move) rd_last <= q_last;
    end

    always @(posedge sys_clk)
        if (sys_rst) begin
            rd_ptr <= 0;
            left <= 0;
            fetching <= 0;
            begun <= 0;
            q_valid <= 0;
            rd_valid <= 0;
        end else begin
            if (rd_meta_pop) begun <= 0;
            else if (begin_frame) begun <= 1;
            if (begin_frame) left <= frame_words;
            else if (fetch) left <= left - 1'b1;
            if (begin_frame) fetching <= 1;
            else if (fetch && left == 14'd1) fetching <= 0;
            if (fetch) rd_ptr <= rd_ptr + 1'b1;
            if (q_move) q_valid <= fetching;
            if (rd_move) rd_valid <= q_valid;
        end

    hero_gray_sync #(.WIDTH(AW + 1)) sync_rd_ptr (
        .src_clk(sys_clk), .src_rst(sys_rst), .src(rd_ptr), .dst_clk(rx_clk), .dst_rst(rx_rst), .dst(rd_ptr_wr)
    );

    // Lost frames cross as a two-bit counter, by Gray code as the pointers
    reg [1:0] lost_count;
    wire [1:0] lost_sys;
    reg [1:0] lost_seen;
    always @(posedge rx_clk)
        if (rx_rst) lost_count <= 0;
        else if ((wr_commit || wr_abort) && meta_full) lost_count <= lost_count + 1'b1;
    hero_gray_sync #(.WIDTH(2)) sync_lost (
        .src_clk(rx_clk), .src_rst(rx_rst), .src(lost_count), .dst_clk(sys_clk), .dst_rst(sys_rst), .dst(lost_sys)
    );
    always @(posedge sys_clk)
        if (sys_rst) lost_seen <= 0;
        else if (lost) lost_seen <= lost_seen + 1'b1;
    assign lost = lost_seen != lost_sys;
`ifdef FORMAL
    // From the end of reset. One clock represents both, because pointers may be late by any time
    initial {wr_ptr, frame_start, overflow, rd_ptr, left, fetching, begun, q_valid, rd_valid, lost_count, lost_seen} = 0;
    always @* assume (!rx_rst && !sys_rst);

    // Frames of one word or more, numbered in their metas; the end follows the last word
    localparam SRC = hero_pkg::META_SRC;
    reg [2:0] serial = 0;
    reg [2:0] words = 0;  // of the frame that is written
    reg [2:0] lost_frames = 0;
    always @(posedge rx_clk) begin
        assume (!(wr_commit && wr_abort) && !(wr_en && (wr_commit || wr_abort)) && serial != 7 && words != 7);
        if (wr_commit || wr_abort) begin
            assume (words != 0);
            serial <= serial + 1'b1;
            words <= 0;
            lost_frames <= lost_frames + meta_full;
        end else words <= words + wr_en;
    end
    always @* begin
        assume (wr_meta[15:0] == {10'd0, words, 3'd0} && wr_meta[SRC+:3] == serial);
        assume (wr_meta[META_W-1:SRC+3] == 0 && wr_meta[SRC-1:17] == 0 && wr_meta[16] == wr_abort);
    end

    // An arbitrary word of an arbitrary frame, chosen by the solver
    (* anyconst *) reg [2:0] its_frame, its_word;
    reg [WIDTH-1:0] marked;
    reg its_bad;
    reg [2:0] its_words;
    always @(posedge rx_clk)
        if (serial == its_frame) begin
            if (wr_en && words == its_word) marked <= wr_data;
            its_bad <= wr_abort;
            its_words <= words;
        end

    // The reader takes a frame's words, then its meta
    wire [2:0] shown = rd_meta[SRC+:3];
    reg [2:0] next = 0;  // lowest frame number that may come next
    reg [2:0] taken = 0;  // words of this frame
    reg ended = 0;
    reg [2:0] losses = 0;
    wire take = rd_valid && rd_en;
    wire overflown = rd_meta[hero_pkg::META_OVERFLOW];
    always @* if (rd_meta_pop) assume (rd_meta_valid && (!has_words || ended));
    always @(posedge sys_clk) begin
        taken <= rd_meta_pop ? 3'd0 : taken + take;
        ended <= !rd_meta_pop && (ended || take && rd_last);
        if (rd_meta_pop) next <= shown + 1'b1;
        losses <= losses + lost;
        if (rd_meta_valid) begin
            in_order: assert (shown >= next && shown < serial);
            if (overflown) overflow_is_empty: assert (!has_words && rd_meta[15:0] == 0 && !rd_meta[16]);
            if (shown == its_frame) verdict_stays: assert (rd_meta[16] == its_bad && has_words == (!its_bad && !overflown));
            if (shown == its_frame && has_words) right_length: assert (rd_meta[15:0] == {10'd0, its_words, 3'd0});
        end
        if (rd_valid) begin
            words_of_a_frame: assert (rd_meta_valid && has_words && !ended);
            last_is_last: assert (rd_last == (taken + 3'd1 == rd_meta[5:3]));
            if (shown == its_frame && taken == its_word) right_word: assert (rd_data == marked);
        end
        none_lost_unseen: assert (losses + lost <= lost_frames);
        c_two_frames: cover (ended && rd_meta_valid && has_words && next != 0);
        c_overflow: cover (rd_meta_valid && overflown);
        c_lost: cover (lost);
        c_wrap: cover (rd_ptr[AW] && rd_valid);
    end
`endif
endmodule

`default_nettype wire
