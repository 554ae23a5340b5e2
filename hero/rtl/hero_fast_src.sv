// The sending end of the fast path: asks the other cards for room and sends them bursts out of the VOQ.
// Protocol, addresses and slots: ../README.md.
`default_nettype none

module hero_fast_src #(
    parameter TXN_BEATS = 128,  // words of a bus transaction; power of two
    parameter TIMEOUT = 65536  // sys cycles without a response until a request is repeated
) (
    input  wire          sys_clk,
    input  wire          sys_rst,
    input  wire [   1:0] card,
    input  wire [3*32-1:0] peer_base,
    // VOQ; queue {destination, priority}
    input  wire [   5:0] f_head,
    input  wire [6*16-1:0] f_len,
    input  wire [6*13-1:0] f_words,
    output wire          f_start,
    output wire [   2:0] f_queue,
    input  wire          f_valid,
    output wire          f_ready,
    input  wire [  63:0] f_data,
    input  wire          f_last,
    // Responses, as hero_fast_dst received them
    input  wire [   2:0] rsp_in_valid,
    input  wire [3*32-1:0] rsp_in,
    output reg  [   2:0] rsp_in_take,
    // DMA client
    output wire          dma_req,
    output reg  [  31:0] dma_addr,
    output reg  [   8:0] dma_beats,
    input  wire          dma_gnt,
    output wire          dma_wvalid,
    input  wire          dma_wready,
    output wire [  63:0] dma_wdata,
    input  wire          dma_done,
    input  wire          dma_err,
    output wire          is_open,  // any channel
    // Pulses
    output reg           repeated,
    output reg           burst_sent,
    output reg           bus_error
);
    localparam SW = $clog2(2 * TXN_BEATS);
    localparam TW = $clog2(TIMEOUT + 1);
    localparam [8:0] BEATS = TXN_BEATS[8:0];

    localparam [3:0] IDLE = 0, REQUEST = 1, RESPONSE = 2, PICK = 3, CONTROL = 4, DATA = 5, NEXT = 6, END = 7, FLUSH = 8,
        ABORT = 9, ASKING = 10;
    reg [3:0] state;
    reg [1:0] dest;  // of the current message or burst

    // Channels: open from a request to the END word without one
    reg [2:0] open;
    assign is_open = open != 0;
    wire [2:0] waiting;  // something is queued
    wire [2:0] expired;
    wire [2:0] ask = waiting & (~open | expired) & ~rsp_in_valid;

    genvar d;
    generate
        for (d = 0; d < 3; d = d + 1) begin : g_channel
            reg [TW-1:0] timer;
            assign expired[d] = timer == TIMEOUT[TW-1:0];
            assign waiting[d] = f_words[26*d+:26] != 0;
            always @(posedge sys_clk)
                if (sys_rst || (state == FLUSH && dest == d) || !open[d]) timer <= 0;
                else if (!expired[d]) timer <= timer + 1'b1;
        end
    endgenerate

    wire ask_any, rsp_any;
    wire [1:0] ask_next, rsp_next;
    hero_rr #(
        .N(4),
        .W(2)
    ) ask_turn (
        .req ({1'b0, ask}),
        .last(dest),
        .any (ask_any),
        .pick(ask_next)
    );
    hero_rr #(
        .N(4),
        .W(2)
    ) rsp_turn (
        .req ({1'b0, rsp_in_valid}),
        .last(dest),
        .any (rsp_any),
        .pick(rsp_next)
    );

    // The destination's queues, one cycle late; the states allow for that
    reg [25:0] words_both;
    reg [31:0] len_both;
    reg [1:0] head;
    always @(posedge sys_clk) begin
        words_both <= f_words[26*dest+:26];
        len_both <= f_len[32*dest+:32];
        head <= f_head[2*dest+:2];
    end
    wire [31:0] occupancy = {3'b0, words_both[25:13], 3'b0, words_both[12:0]};
    wire [15:0] len_hi = len_both[31:16];
    wire [15:0] len_lo = len_both[15:0];
    wire [13:0] words_hi = {1'b0, len_hi[15:3]} + {13'b0, |len_hi[2:0]};
    wire [13:0] words_lo = {1'b0, len_lo[15:3]} + {13'b0, |len_lo[2:0]};

    reg [15:0] grant_hi, grant_lo;
    reg hi_fits, lo_fits;
    reg [7:0] packets;
    reg failed;  // a transaction of this message or burst was refused, and the rest is discarded
    reg is_burst;

    // Words of the VOQ
    wire voq_valid, voq_ready, voq_last;
    wire [63:0] voq_data;
    hero_skid #(
        .WIDTH(65)
    ) from_voq (
        .clk(sys_clk),
        .rst(sys_rst),
        .in_valid(f_valid),
        .in_ready(f_ready),
        .in_data({f_last, f_data}),
        .out_valid(voq_valid),
        .out_ready(voq_ready),
        .out_data({voq_last, voq_data})
    );

    // Into the stage
    reg push;
    reg [63:0] push_data;
    wire room;
    always @* begin
        push = 0;
        push_data = voq_data;
        case (state)
            REQUEST: begin
                push = 1;
                push_data = {32'b0, occupancy};
            end
            CONTROL: begin
                push = (hi_fits || lo_fits) && !failed;
                push_data = {4'h1, 28'b0, 15'b0, hi_fits, hi_fits ? len_hi : len_lo};
            end
            DATA: push = voq_valid && !failed;
            END: begin
                push = !failed;
                push_data = {4'h2, packets, 20'b0, occupancy};
            end
            default: ;
        endcase
    end
    wire pushed = push && room;
    assign f_start = state == CONTROL && pushed;
    assign f_queue = {dest, hi_fits};
    assign voq_ready = state == DATA && (room || failed);

    wire staged_none;  // and no transaction under way
    wire refused = dma_done && dma_err;

    always @(posedge sys_clk) begin
        rsp_in_take <= 0;
        repeated <= 0;
        burst_sent <= 0;
        bus_error <= refused;
        if (refused) failed <= 1;
        case (state)
            IDLE: begin
                failed <= 0;
                packets <= 0;
                if (ask_any) begin
                    dest <= ask_next;
                    state <= ASKING;
                end else if (rsp_any) begin
                    dest <= rsp_next;
                    rsp_in_take[rsp_next] <= 1;
                    state <= RESPONSE;
                end
            end
            ASKING: state <= REQUEST;
            REQUEST: begin
                is_burst <= 0;
                repeated <= open[dest];
                open[dest] <= 1;
                state <= FLUSH;
            end
            RESPONSE: begin
                is_burst <= 1;
                {grant_hi, grant_lo} <= rsp_in[32*dest+:32];
                state <= PICK;
            end
            PICK: begin
                hi_fits <= head[1] && {2'b0, words_hi} <= grant_hi;
                lo_fits <= head[0] && {2'b0, words_lo} <= grant_lo;
                state <= CONTROL;
            end
            CONTROL:
            if (failed) state <= ABORT;
            else if (!hi_fits && !lo_fits) state <= END;
            else if (pushed) begin
                if (hi_fits) grant_hi <= grant_hi - {2'b0, words_hi};
                else grant_lo <= grant_lo - {2'b0, words_lo};
                packets <= packets + 1'b1;
                state <= DATA;
            end
            DATA: if (voq_valid && voq_ready && voq_last) state <= NEXT;
            NEXT: state <= PICK;  // the queue shows its next head two cycles after its last word
            END:
            if (failed) state <= ABORT;
            else if (pushed) begin
                // The occupancy in the END word decides; later words find the channel closed, and a request is made.
                open[dest] <= occupancy != 0;
                state <= FLUSH;
            end
            FLUSH:
            if (failed && is_burst) state <= ABORT;
            else if (staged_none) begin
                burst_sent <= is_burst;
                state <= IDLE;
            end
            default: begin  // ABORT: a new request is made for what is still queued
                open[dest] <= 0;
                state <= IDLE;
            end
        endcase
        if (sys_rst) begin
            state <= IDLE;
            dest <= 0;
            open <= 0;
            failed <= 0;
            bus_error <= 0;
        end
    end

    // Out of the stage, in transactions
    wire [SW:0] level;
    wire staged_valid;
    hero_stage #(
        .WORDS(2 * TXN_BEATS)
    ) stage (
        .clk(sys_clk),
        .rst(sys_rst || state == ABORT),
        .wr_valid(push),
        .wr_ready(room),
        .wr_data(push_data),
        .level(level),
        .rd_valid(staged_valid),
        .rd_ready(dma_wvalid && dma_wready),
        .rd_data(dma_wdata)
    );

    localparam [1:0] COLLECT = 0, ASK = 1, SEND = 2, ANSWER = 3;
    reg [1:0] issue;
    reg [8:0] left;
    wire [8:0] level9 = {{(8-SW){1'b0}}, level};
    wire full_transaction = level9 >= BEATS;
    assign staged_none = issue == COLLECT && level == 0;
    assign dma_req = issue == ASK;
    assign dma_wvalid = issue == SEND && staged_valid;

    // This card's slot at the peer
    wire [1:0] slot = dest < card ? card - 1'b1 : card;

    always @(posedge sys_clk) begin
        case (issue)
            COLLECT:
            if (!failed && (full_transaction || (state == FLUSH && level != 0))) begin
                dma_beats <= full_transaction ? BEATS : level9;
                dma_addr <= peer_base[32*dest+:32] + (is_burst ? {16'd0, slot, 14'd0} : {27'h0000800, slot, 3'd0});
                issue <= ASK;
            end
            ASK:
            if (dma_gnt) begin
                left <= dma_beats;
                issue <= SEND;
            end
            SEND:
            if (dma_wvalid && dma_wready) begin
                left <= left - 1'b1;
                if (left == 1) issue <= ANSWER;
            end
            default: if (dma_done) issue <= COLLECT;
        endcase
        if (sys_rst) issue <= COLLECT;
    end

`ifdef FORMAL
    reg past = 0;
    always @(posedge sys_clk) past <= 1;
    initial assume (sys_rst);
    // Assumes no bus faults; time-outs recover from them.
    always @(posedge sys_clk) assume (!dma_err);

    // P5: if anything is queued, a request is being made, or the peer has one that it has not answered (`told`), or a
    // response or burst is being processed. Queues shrink only by bursts.
    wire asking = state == ASKING || state == REQUEST;
    wire bursting = state != IDLE && !asking && !(state == FLUSH && !is_burst);
    wire [2:0] asked_for, knows, for_something;
    generate
        for (d = 0; d < 3; d = d + 1) begin : g_p5
            reg told = 0;
            reg was_waiting = 0;
            wire here = dest == d;
            always @(posedge sys_clk) begin
                was_waiting <= waiting[d] && !sys_rst;
                if (past && was_waiting && !(here && bursting)) assume (waiting[d]);
                if (here && (state == REQUEST || state == END) && pushed) told <= push_data[31:0] != 0;
                else if (here && (state == RESPONSE || state == ABORT)) told <= 0;
                if (sys_rst) told <= 0;
            end
            assign asked_for[d] = !waiting[d] || told || ask[d] || expired[d] || rsp_in_valid[d] || here && state != IDLE;
            assign knows[d] = told || !open[d] || here && bursting && state != FLUSH;
            assign for_something[d] = waiting[d] || !(asking && here);
        end
    endgenerate
    always @(posedge sys_clk)
        if (past && !sys_rst) begin
            p5_asked_for: assert (&asked_for);
            // These make the proof inductive.
            p5_told: assert (&knows);
            p5_asks_for_something: assert (&for_something);
            no_failure: assert (!failed && state <= ASKING && dest < 3);
            if (state == REQUEST) request_of_something: assert (occupancy != 0);
            if (state == IDLE || asking || state == RESPONSE) stage_empty: assert (staged_none);
            if (bursting && state != RESPONSE) burst_state: assert (is_burst);
            if (state == FLUSH && !is_burst) open_after_a_request: assert (open[dest]);
        end

    // P9
    always @(posedge sys_clk)
        if (past && !$past(sys_rst) && !sys_rst) begin
            if ($past(dma_req && !dma_gnt)) p9_request: assert (dma_req && $stable(dma_addr) && $stable(dma_beats));
            if ($past(dma_wvalid && !dma_wready)) p9_data: assert (dma_wvalid && $stable(dma_wdata));
        end

    always @(posedge sys_clk)
        if (past && !sys_rst) begin
            c_closed: cover (burst_sent && open == 0);
            c_asked_in_the_end_word: cover (burst_sent && open != 0);
            c_repeated: cover (repeated);
        end
`endif
endmodule

`default_nettype wire
