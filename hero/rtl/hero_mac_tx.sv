// AXI4-Stream to GMII: preamble, padding to 60 octets, FCS, gap of 12. If the next octet of a frame is not there in time,
// the frame ends with tx_er, and its rest is discarded. (IEEE 802.3 clauses 3, 4, 35)
`default_nettype none

module hero_mac_tx (
    input  wire       clk,
    input  wire       rst,
    input  wire [7:0] s_axis_tdata,
    input  wire       s_axis_tvalid,
    output wire       s_axis_tready,
    input  wire       s_axis_tlast,
    output reg  [7:0] gmii_txd,
    output reg        gmii_tx_en,
    output reg        gmii_tx_er
);
    localparam [2:0] IDLE = 0, PREAMBLE = 1, DATA = 2, PAD = 3, FCS = 4, GAP = 5, DISCARD = 6;
    localparam [5:0] MIN_OCTETS = 60;

    reg [2:0] state;
    reg [3:0] count;  // cycles in PREAMBLE, FCS and GAP
    reg [5:0] octets;  // of the frame, to MIN_OCTETS
    wire [31:0] crc;
    wire [31:0] fcs = ~crc;
    wire octet = state == DATA && s_axis_tvalid || state == PAD;
    wire enough = octets >= MIN_OCTETS - 1'b1;  // including the one that is being sent
    wire underrun = state == DATA && !s_axis_tvalid;
    assign s_axis_tready = state == DATA || state == DISCARD;

    hero_crc32 crc32 (
        .clk  (clk),
        .clear(state == PREAMBLE),
        .valid(octet),
        .data (state == PAD ? 8'h00 : s_axis_tdata),
        .crc  (crc)
    );

    always @(posedge clk)
        if (rst) begin
            state <= IDLE;
            count <= 0;
        end else begin
            count <= count + 1'b1;
            case (state)
                IDLE: begin
                    count <= 0;
                    if (s_axis_tvalid) state <= PREAMBLE;
                end
                PREAMBLE: if (count == 7) state <= DATA;
                DATA: begin
                    count <= 0;
                    if (underrun) state <= DISCARD;
                    else if (s_axis_tlast) state <= enough ? FCS : PAD;
                end
                PAD: begin
                    count <= 0;
                    if (enough) state <= FCS;
                end
                FCS:
                if (count == 3) begin
                    state <= GAP;
                    count <= 0;
                end
                DISCARD: begin
                    count <= 0;
                    if (s_axis_tvalid && s_axis_tlast) state <= GAP;
                end
                default: if (count == 10) state <= IDLE;  // with IDLE's own cycle 12
            endcase
        end

    always @(posedge clk) begin
        if (state == PREAMBLE) octets <= 0;
        else if (octet && !enough) octets <= octets + 1'b1;
        else if (octet) octets <= MIN_OCTETS;
        case (state)
            PREAMBLE: gmii_txd <= count == 7 ? 8'hd5 : 8'h55;
            DATA: gmii_txd <= s_axis_tdata;
            FCS: gmii_txd <= fcs[8*count[1:0]+:8];
            default: gmii_txd <= 8'h00;
        endcase
        gmii_tx_en <= !rst && (state == PREAMBLE || state == DATA || state == PAD || state == FCS);
        gmii_tx_er <= !rst && underrun;
    end
endmodule

`default_nettype wire
