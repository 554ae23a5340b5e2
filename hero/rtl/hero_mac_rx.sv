// GMII to AXI4-Stream: removes preamble and FCS. `m_axis_tuser` with the last octet: bad FCS, or an error on the line. There
// is no ready, because Ethernet cannot wait. A fragment of up to 4 octets gives one octet, bad. (IEEE 802.3 clauses 3, 35)
`default_nettype none

module hero_mac_rx (
    input  wire       clk,
    input  wire       rst,
    input  wire [7:0] gmii_rxd,
    input  wire       gmii_rx_dv,
    input  wire       gmii_rx_er,
    output reg  [7:0] m_axis_tdata,
    output reg        m_axis_tvalid,
    output reg        m_axis_tlast,
    output reg        m_axis_tuser
);
    localparam [7:0] PREAMBLE = 8'h55, SFD = 8'hd5;
    localparam [31:0] RESIDUE = 32'hdebb20e3;  // of a frame with its FCS
    localparam [1:0] IDLE = 0, FRAME = 1, IGNORE = 2;

    // The line's registers
    reg [7:0] rxd;
    reg rx_dv, rx_er;
    always @(posedge clk) begin
        rxd <= gmii_rxd;
        rx_dv <= gmii_rx_dv;
        rx_er <= gmii_rx_er;
    end

    reg [1:0] state;
    reg [4:0] seen;  // bit k: more than k octets of the frame came
    reg [39:0] held;  // the last five: when the frame ends, four of them are the FCS
    reg error;
    wire octet = state == FRAME && rx_dv;
    wire frame_end = state == FRAME && !rx_dv;

    always @(posedge clk)
        if (rst) state <= IGNORE;  // do not start in the middle of a frame
        else
            case (state)
                IDLE:
                if (rx_dv) begin
                    if (rxd == SFD && !rx_er) state <= FRAME;
                    else if (rxd != PREAMBLE || rx_er) state <= IGNORE;
                end
                default: if (!rx_dv) state <= IDLE;
            endcase

    wire [31:0] crc;
    hero_crc32 crc32 (
        .clk  (clk),
        .clear(state == IDLE),
        .valid(octet),
        .data (rxd),
        .crc  (crc)
    );

    always @(posedge clk) begin
        if (state == IDLE) begin
            seen  <= 0;
            error <= 0;
        end else if (octet) begin
            seen <= {seen[3:0], 1'b1};
            held <= {held[31:0], rxd};
            if (rx_er) error <= 1;
        end
        m_axis_tdata <= held[39:32];
        m_axis_tlast <= frame_end;
        m_axis_tuser <= frame_end && (error || crc != RESIDUE || !seen[4]);
        m_axis_tvalid <= !rst && (octet && seen[4] || frame_end && seen[0]);
    end
endmodule

`default_nettype wire
