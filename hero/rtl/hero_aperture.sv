// The bus side of a card's aperture: an AXI4 write-only slave that sorts words into bursts, requests and responses. It is
// always ready for words, because room for them was granted before. Addresses: ../README.md.
`default_nettype none

module hero_aperture (
    input  wire        sys_clk,
    input  wire        sys_rst,
    input  wire        soft_rst,  // words are refused, handshakes continue
    input  wire [ 3:0] s_axi_awid,
    input  wire [31:0] s_axi_awaddr,
    input  wire [ 7:0] s_axi_awlen,
    input  wire        s_axi_awvalid,
    output wire        s_axi_awready,
    input  wire [63:0] s_axi_wdata,
    input  wire        s_axi_wlast,
    input  wire        s_axi_wvalid,
    output wire        s_axi_wready,
    output reg  [ 3:0] s_axi_bid,
    output wire [ 1:0] s_axi_bresp,
    output wire        s_axi_bvalid,
    input  wire        s_axi_bready,
    // A word and its kind (at most one of the three)
    output reg  [ 1:0] slot,
    output reg  [63:0] word,
    output reg  [15:0] words,  // of a packet, if `word` announces one
    output wire        burst_valid,
    input  wire        burst_refused,  // with burst_valid: answer SLVERR, ignore the rest of the transaction
    output wire        req_valid,
    output wire        rsp_valid
);
    localparam [1:0] SLVERR = 2;
    localparam [1:0] IDLE = 0, WORDS = 1, LAST = 2, RESPOND = 3;
    localparam [1:0] BURST = 0, REQUEST = 1, RESPONSE = 2;
    reg [1:0] state;
    reg [1:0] what;
    reg refused;
    reg valid;  // `word` is new
    reg raw_valid;
    reg [63:0] raw;  // the word a cycle before

    assign s_axi_awready = state == IDLE;
    assign s_axi_wready = state == WORDS;
    assign s_axi_bvalid = state == RESPOND;
    assign s_axi_bresp = refused ? SLVERR : 2'd0;

    wire heard = valid && !refused && !soft_rst;
    assign burst_valid = heard && what == BURST;
    assign req_valid = heard && what == REQUEST;
    assign rsp_valid = heard && what == RESPONSE;

    // Bits 31:20 chose this card.
    wire at_burst = s_axi_awaddr[19:16] == 0;
    wire at_message = s_axi_awaddr[19:7] == 13'h200 && s_axi_awaddr[5:3] < 3 && s_axi_awaddr[2:0] == 0;
    wire [1:0] at_slot = at_burst ? s_axi_awaddr[15:14] : s_axi_awaddr[4:3];
    wire at_nothing = at_burst ? at_slot == 3 : !at_message || s_axi_awlen != 0;
    wire unused = &{1'b0, s_axi_awaddr[31:20]};

    always @(posedge sys_clk) begin
        raw_valid <= s_axi_wvalid && s_axi_wready;
        raw <= s_axi_wdata;
        valid <= raw_valid;
        word <= raw;
        words <= {3'b0, raw[15:3]} + {15'b0, |raw[2:0]};
        if ((soft_rst && state != RESPOND) || (burst_valid && burst_refused)) refused <= 1;
        case (state)
            IDLE:
            if (s_axi_awvalid) begin
                s_axi_bid <= s_axi_awid;
                what <= at_burst ? BURST : s_axi_awaddr[6] ? RESPONSE : REQUEST;
                slot <= at_slot;
                refused <= at_nothing || soft_rst;
                state <= WORDS;
            end
            WORDS: if (s_axi_wvalid && s_axi_wlast) state <= LAST;
            LAST: if (!raw_valid) state <= RESPOND;
            default: if (s_axi_bready) state <= IDLE;
        endcase
        if (sys_rst) begin
            state <= IDLE;
            valid <= 0;
            raw_valid <= 0;
        end
    end

`ifdef FORMAL
    reg past = 0;
    always @(posedge sys_clk) past <= 1;
    initial assume (sys_rst);

    // P9, also in soft reset
    always @(posedge sys_clk)
        if (past && !$past(sys_rst) && !sys_rst) begin
            if ($past(s_axi_bvalid && !s_axi_bready))
                p9_response: assert (s_axi_bvalid && $stable(s_axi_bresp) && $stable(s_axi_bid));
            // A transaction is answered once, after its last word
            if ($past(s_axi_bvalid && s_axi_bready)) answered_once: assert (!s_axi_bvalid);
            if (s_axi_bvalid) answered_after_the_last_word: assert (!valid);
            one_kind: assert (burst_valid + req_valid + rsp_valid <= 1);
        end

    // Words in soft reset have no effect and are refused
    always @(posedge sys_clk)
        if (past && soft_rst) nothing_in_reset: assert (!burst_valid && !req_valid && !rsp_valid);

    always @(posedge sys_clk)
        if (past && !sys_rst) begin
            c_burst: cover (s_axi_bvalid && s_axi_bready && !refused && what == BURST);
            c_request: cover (req_valid);
            c_response: cover (rsp_valid);
            c_refused_in_reset: cover (s_axi_bvalid && s_axi_bready && refused && soft_rst);
        end
`endif
endmodule

`default_nettype wire
