// The eight queues of a card: three peers and the host, two priorities each. One writer, one reader for the fast path and
// one for the host can work at the same time. Queue number: {destination, priority}; destination 3 is the host.
`default_nettype none

module hero_voq #(
    parameter VOQ_WORDS = 4096,  // a queue; power of two, to 4096
    parameter VOQ_PACKETS = 1024  // power of two
) (
    input  wire            clk,
    input  wire            rst,
    // Writer: begins a frame only with `enq_room`, the answer to `enq_queue` and `enq_len` a cycle before; these are
    // held until the last word
    input  wire [     2:0] enq_queue,
    input  wire [    15:0] enq_len,
    output wire            enq_room,
    input  wire            enq_valid,
    input  wire [    63:0] enq_data,
    input  wire            enq_last,
    // Fast path: `f_start` chooses the queue (0-5) whose head is streamed; not again before `f_last` is taken
    output wire [     5:0] f_head,
    output wire [6*16-1:0] f_len,
    output wire [6*13-1:0] f_words,
    input  wire            f_start,
    input  wire [     2:0] f_queue,
    output wire            f_valid,
    input  wire            f_ready,
    output wire [    63:0] f_data,
    output wire            f_last,
    // Host: the same
    output wire [     1:0] h_head,
    output wire [2*16-1:0] h_len,
    output wire [2*13-1:0] h_words,
    input  wire            h_start,
    input  wire            h_prio,
    output wire            h_valid,
    input  wire            h_ready,
    output wire [    63:0] h_data,
    output wire            h_last
);
    localparam AW = $clog2(VOQ_WORDS);
    localparam PW = $clog2(VOQ_PACKETS);

    wire [7:0] head, valid, last, has_packet_room;
    wire [8*64-1:0] data;
    wire [8*16-1:0] len;
    wire [8*13-1:0] words, level;

    // Readers
    reg f_active, h_active;
    reg [2:0] f_selected;
    reg h_selected;
    always @(posedge clk) begin
        if (rst) f_active <= 0;
        else if (f_start) f_active <= 1;
        else if (f_valid && f_ready && f_last) f_active <= 0;
        if (f_start) f_selected <= f_queue;
        if (rst) h_active <= 0;
        else if (h_start) h_active <= 1;
        else if (h_valid && h_ready && h_last) h_active <= 0;
        if (h_start) h_selected <= h_prio;
    end
    wire [2:0] h_queue = {2'd3, h_selected};

`ifdef FORMAL
    wire [7:0] seen;  // whether the word at a queue's output is the one that its reader sees
`endif
    // The queue is known one cycle before the frame.
    reg [7:0] chosen;
    always @(posedge clk) chosen <= 8'd1 << enq_queue;

    genvar q;
    generate
        for (q = 0; q < 8; q = q + 1) begin : queue
            wire enq = enq_valid && chosen[q];
            wire [AW:0] fifo_level, fifo_words;
            wire [PW:0] fifo_packets;
            wire read = q < 6 ? f_active && f_selected == q && f_ready : h_active && h_queue == q && h_ready;
            hero_packet_fifo #(
                .WORDS  (VOQ_WORDS),
                .PACKETS(VOQ_PACKETS)
            ) fifo (
                .clk      (clk),
                .rst      (rst),
                .wr_valid (enq),
                .wr_data  (enq_data),
                .wr_commit(enq && enq_last),
                .wr_len   (enq_len),
                .wr_abort (1'b0),
                .level    (fifo_level),
                .words    (fifo_words),
                .packets  (fifo_packets),
                .rd_head  (head[q]),
                .rd_len   (len[16*q+:16]),
                .rd_valid (valid[q]),
                .rd_ready (read),
                .rd_data  (data[64*q+:64]),
                .rd_last  (last[q])
            );
            assign words[13*q+:13] = {{12 - AW{1'b0}}, fifo_words};
            assign level[13*q+:13] = {{12 - AW{1'b0}}, fifo_level};
            assign has_packet_room[q] = !fifo_packets[PW];
`ifdef FORMAL
            assign seen[q] = !(valid[q] && read) || (q < 6 ? f_valid && f_selected == q : h_valid && h_queue == q);
`endif
        end
    endgenerate

    assign f_head = head[5:0];
    assign f_len = len[6*16-1:0];
    assign f_words = words[6*13-1:0];
    assign f_valid = f_active && valid[f_selected];
    assign f_data = data[64*f_selected+:64];
    assign f_last = last[f_selected];
    assign h_head = head[7:6];
    assign h_len = len[8*16-1:6*16];
    assign h_words = words[8*13-1:6*13];
    assign h_valid = h_active && valid[h_queue];
    assign h_data = h_selected ? data[64*7+:64] : data[64*6+:64];
    assign h_last = last[h_queue];

    // Room
    reg [13:0] needed;
    reg [12:0] level_chosen;
    reg has_room_chosen;
    always @(posedge clk) begin
        needed <= {1'b0, enq_len[15:3]} + {13'b0, |enq_len[2:0]};
        level_chosen <= level[13*enq_queue+:13];
        has_room_chosen <= has_packet_room[enq_queue];
    end
    wire [14:0] would_be = {2'b0, level_chosen} + {1'b0, needed};
    assign enq_room = {17'b0, would_be} <= VOQ_WORDS && has_room_chosen;

`ifdef FORMAL
    reg past = 0;  // the last cycle was none of reset
    always @(posedge clk) past <= !rst;
    initial assume (rst);

    // P9 for both readers, whatever the writer and the other reader do
    always @(posedge clk) begin
        if (f_start) assume (!f_active && f_queue < 6);
        if (h_active) assume (!h_start);
        if (!rst) only_its_reader: assert (&seen);
        if (past && !rst) begin
            selected_is_a_peer: assert (!f_active || f_selected < 6);
            if ($past(f_valid && !f_ready)) p9_fast: assert (f_valid && $stable(f_data) && $stable(f_last));
            if ($past(h_valid && !h_ready)) p9_host: assert (h_valid && $stable(h_data) && $stable(h_last));
            if ($past(f_valid && f_ready && f_last)) fast_ends: assert (!f_valid);
            if ($past(h_valid && h_ready && h_last)) host_ends: assert (!h_valid);
        end
    end

    always @(posedge clk)
        if (past && !rst) begin
            c_both_readers: cover (f_valid && f_ready && f_last && h_valid && h_ready && h_last);
            c_no_room: cover (!enq_room && enq_len != 0);
        end
`endif
endmodule

`default_nettype wire
