// Requests of the other cards, and the one outstanding grant. Sources are served round robin; a grant is written to its
// source as a response.
`default_nettype none

module hero_grant #(
    parameter DST_WORDS = 8192,
    parameter GRANT_WORDS = 190,
    parameter TIMEOUT = 65536
) (
    input  wire                       sys_clk,
    input  wire                       rst,
    input  wire [                1:0] card,
    input  wire [           3*32-1:0] peer_base,
    // A request, either alone or in an END word
    input  wire                       req_valid,
    input  wire [                1:0] req_slot,
    input  wire [               31:0] req,
    output wire [           3*32-1:0] req_in,  // the latest of each source
    // The output FIFO
    input  wire [$clog2(DST_WORDS):0] level,
    // The grant: words left, for packets of high and low priority
    output reg                        open,
    output reg  [                1:0] slot,
    output reg  [               15:0] left_hi,
    output reg  [               15:0] left_lo,
    input  wire                       spent_hi,  // a word of it goes into the FIFO
    input  wire                       spent_lo,
    input  wire                       close,
    output wire                       timeout,
    // DMA client
    output wire                       dma_req,
    output reg  [               31:0] dma_addr,
    output wire [                8:0] dma_beats,
    input  wire                       dma_gnt,
    output wire                       dma_wvalid,
    input  wire                       dma_wready,
    output reg  [               63:0] dma_wdata,
    input  wire                       dma_done,
    input  wire                       dma_err,
    output wire                       granted,
    output wire                       bus_error
);
    localparam TW = $clog2(TIMEOUT + 1);
    localparam [15:0] DEPTH = DST_WORDS[15:0];
    localparam [15:0] ENOUGH = GRANT_WORDS[15:0];

    // States: a grant is computed (choose, high, low), sent to the source, and in force
    localparam [2:0] CHOOSE = 0, HIGH = 1, LOW = 2, ASK = 3, SEND = 4, ANSWER = 5, GIVEN = 6;
    reg [2:0] state;

    wire [2:0] waiting;
    wire [1:0] next;
    wire any;
    genvar s;
    generate
        for (s = 0; s < 3; s = s + 1) begin : g_request
            reg valid;
            reg [31:0] last;
            always @(posedge sys_clk) begin
                if (state == HIGH && slot == s) valid <= 0;
                if (req_valid && req_slot == s) begin
                    valid <= req != 0;
                    last <= req;
                end
                if (rst) begin
                    valid <= 0;
                    last <= 0;
                end
            end
            assign waiting[s] = valid;
            assign req_in[32*s+:32] = last;
        end
    endgenerate

    hero_rr #(
        .N(4),
        .W(2)
    ) turn (
        .req ({1'b0, waiting}),
        .last(slot),
        .any (any),
        .pick(next)
    );

    // Free words, some cycles late, which is safe: without a grant the FIFO only gets emptier.
    reg [15:0] free;
    reg enough;
    wire [15:0] level16 = {{15 - $clog2(DST_WORDS) {1'b0}}, level};

    wire [31:0] chosen = req_in[32*slot+:32];
    wire [15:0] want_hi = chosen[31:16];
    wire [15:0] want_lo = chosen[15:0];
    reg [15:0] lo;  // low-priority words asked for together with left_hi

    reg [TW-1:0] age;
    assign timeout = open && age == TIMEOUT[TW-1:0] && !close;

    // This card's number among the destinations of the source
    wire [1:0] dest = slot < card ? card - 1'b1 : card;

    assign dma_req = state == ASK;
    assign dma_beats = 1;
    assign dma_wvalid = state == SEND;
    assign granted = dma_req && dma_gnt;
    assign bus_error = state == ANSWER && dma_done && dma_err;

    always @(posedge sys_clk) begin
        free <= DEPTH - level16;
        enough <= DEPTH - level16 >= ENOUGH;
        if (open) age <= age + 1'b1;
        if (spent_hi) left_hi <= left_hi - 1'b1;
        if (spent_lo) left_lo <= left_lo - 1'b1;
        case (state)
            CHOOSE: begin
                age <= 0;
                if (any && enough) begin
                    slot <= next;
                    state <= HIGH;
                end
            end
            HIGH: begin
                left_hi <= want_hi < free ? want_hi : free;
                free <= want_hi < free ? free - want_hi : 16'd0;
                lo <= want_lo;
                state <= LOW;
            end
            LOW: begin
                left_lo <= lo < free ? lo : free;
                open <= 1;
                dma_addr <= peer_base[32*slot+:32] + {27'h0000802, dest, 3'd0};
                state <= ASK;
            end
            ASK: begin
                dma_wdata <= {32'd0, left_hi, left_lo};
                if (dma_gnt) state <= SEND;
            end
            SEND: if (dma_wready) state <= ANSWER;
            ANSWER:
            if (dma_done) begin
                // The source did not get the grant, and will ask again.
                if (dma_err) open <= 0;
                state <= GIVEN;
            end
            default: if (!open) state <= CHOOSE;
        endcase
        if (close || timeout) open <= 0;
        if (rst) begin
            state <= CHOOSE;
            open <= 0;
            enough <= 0;
            slot <= 0;
        end
    end

`ifdef FORMAL
    reg past = 0;
    always @(posedge sys_clk) past <= 1;
    initial assume (rst);

    // P1: words in the FIFO and granted words fit
    wire [17:0] promised = open ? left_hi + left_lo : 18'd0;
    always @(posedge sys_clk)
        if (past && !rst) begin
            p1_room: assert (level + promised <= DST_WORDS);
            // With them the proof is inductive.
            if (state == CHOOSE && enough || state == HIGH) p1_free: assert (free + level <= DST_WORDS);
            if (state == LOW) p1_free_for_low: assert (left_hi + free + level <= DST_WORDS);
            if (spent_hi) p1_spent_high: assert (open && left_hi != 0);
            if (spent_lo) p1_spent_low: assert (open && left_lo != 0);
        end

    // P7: a waiting source sees at most two other grants before its own
    wire choice = state == CHOOSE && any && enough && !rst;
    wire [2:0] two_at_most, after_one, after_two;
    generate
        for (s = 0; s < 3; s = s + 1) begin : g_p7
            reg [1:0] others = 0;
            always @(posedge sys_clk) begin
                if (rst || !waiting[s] || (choice && next == s)) others <= 0;
                else if (choice) others <= others + 1'b1;
            end
            assign two_at_most[s] = others <= 2;
            assign after_one[s] = others != 1 || slot != s;
            assign after_two[s] = others != 2 || slot == (s == 0 ? 2 : s - 1);
        end
    endgenerate
    always @(posedge sys_clk)
        if (past && !rst) begin
            p7_two_others: assert (&two_at_most);
            // These make the proof inductive: after two others, it is this source's turn.
            p7_after_one: assert (&after_one);
            p7_after_two: assert (&after_two);
        end
    always @(posedge sys_clk) if (past) p7_slot: assert (slot < 3);

    // P6: a grant is for one source, and there is no other at the same time
    always @(posedge sys_clk)
        if (past && !rst) begin
            if (state == CHOOSE || state == HIGH || state == LOW) p6_one_grant: assert (!open);
            if ($past(open && !rst) && open) p6_stays: assert ($stable(slot));
        end

    // P9
    always @(posedge sys_clk)
        if (past && !$past(rst)) begin
            if ($past(dma_req && !dma_gnt)) p9_request: assert (dma_req && $stable(dma_addr) && $stable(dma_beats));
            if ($past(dma_wvalid && !dma_wready)) p9_data: assert (dma_wvalid && $stable(dma_wdata));
        end

    always @(posedge sys_clk)
        if (past && !rst) begin
            c_both_priorities: cover (open && left_hi != 0 && left_lo != 0);
            c_less_than_asked: cover (open && left_lo != 0 && left_lo < want_lo);
            c_full: cover (level == DST_WORDS);
        end
`endif
endmodule

`default_nettype wire
