// Registers over a serial line: an AXI4-Lite master that a request of 8 octets makes read or write one register, and that
// answers with 8 octets.
//
//   octet      0     1                              2         3..6                       7
//   request    0x48  {write, 5'b0, unit 2}          register  data, lowest octet first   CRC-8 of octets 0 to 6
//   answer     0x68  {write, 3'b0, resp 2, unit 2}  register  data                       CRC-8
//
// A request that is broken, or not over GAP cycles after one of its octets, has no effect and no answer, and is counted. So
// whoever asked waits, and asks again.
`default_nettype none

module hero_uart_regs #(
    parameter DIVISOR = 100,
    parameter GAP = 1000000
) (
    input  wire        sys_clk,
    input  wire        sys_rst,
    input  wire        rx,
    output wire        tx,
    output reg  [ 1:0] unit,  // which slave is meant, constant while anything is valid
    output wire [ 7:0] m_axil_awaddr,
    output reg         m_axil_awvalid,
    input  wire        m_axil_awready,
    output wire [31:0] m_axil_wdata,
    output reg         m_axil_wvalid,
    input  wire        m_axil_wready,
    input  wire [ 1:0] m_axil_bresp,
    input  wire        m_axil_bvalid,
    output wire        m_axil_bready,
    output wire [ 7:0] m_axil_araddr,
    output reg         m_axil_arvalid,
    input  wire        m_axil_arready,
    input  wire [31:0] m_axil_rdata,
    input  wire [ 1:0] m_axil_rresp,
    input  wire        m_axil_rvalid,
    output wire        m_axil_rready,
    output reg         accepted,  // pulse: a request
    output reg         broken  // pulse: one that is not answered
);
    localparam [7:0] REQUEST = 8'h48, ANSWER = 8'h68;
    localparam [1:0] LISTEN = 0, ACCESS = 1, SAY = 2;

    wire [7:0] in, crc_next;
    wire in_valid, in_broken, out_ready;
    reg [1:0] state;
    reg [2:0] at;  // octet of the request or the answer
    reg [7:0] crc;
    reg write;
    reg [5:0] number;
    reg [31:0] data;
    reg [1:0] resp;
    reg [7:0] out;
    reg out_valid;
    reg [$clog2(GAP+1)-1:0] quiet;  // cycles since the last octet

    hero_uart_rx #(.DIVISOR(DIVISOR)) receiver (
        .clk(sys_clk), .rst(sys_rst), .rx(rx), .data(in), .valid(in_valid), .broken(in_broken)
    );
    hero_uart_tx #(.DIVISOR(DIVISOR)) sender (
        .clk(sys_clk), .rst(sys_rst), .data(out), .valid(out_valid), .ready(out_ready), .tx(tx)
    );
    hero_crc8 step (.crc(crc), .data(state == LISTEN ? in : out), .next(crc_next));

    assign m_axil_awaddr = {number, 2'd0};
    assign m_axil_araddr = {number, 2'd0};
    assign m_axil_wdata = data;
    assign m_axil_bready = state == ACCESS;
    assign m_axil_rready = state == ACCESS;
    wire wrong = in_broken || in_valid && at == 3'd7 && in != crc || quiet == GAP[$clog2(GAP+1)-1:0];

    always @(posedge sys_clk) begin
        accepted <= 1'b0;
        broken <= 1'b0;
        if (m_axil_awready) m_axil_awvalid <= 1'b0;
        if (m_axil_wready) m_axil_wvalid <= 1'b0;
        if (m_axil_arready) m_axil_arvalid <= 1'b0;
        case (state)
            LISTEN: begin
                quiet <= at == 3'd0 || in_valid ? 0 : quiet + 1'b1;
                if (in_valid) begin
                    crc <= crc_next;
                    if (at != 3'd0 || in == REQUEST) at <= at + 3'd1;
                    case (at)
                        3'd1: {write, unit} <= {in[7], in[1:0]};
                        3'd2: number <= in[5:0];
                        3'd3, 3'd4, 3'd5, 3'd6: data <= {in, data[31:8]};
                        default: ;
                    endcase
                    if (at == 3'd7) begin
                        state <= ACCESS;
                        accepted <= 1'b1;
                        m_axil_awvalid <= write;
                        m_axil_wvalid <= write;
                        m_axil_arvalid <= !write;
                    end
                end
                if (wrong) begin
                    state <= LISTEN;
                    at <= 3'd0;
                    broken <= 1'b1;
                    accepted <= 1'b0;
                    {m_axil_awvalid, m_axil_wvalid, m_axil_arvalid} <= 3'd0;
                end
                if (at == 3'd0 && !(in_valid && in == REQUEST)) crc <= 8'd0;
            end
            ACCESS:
            if (m_axil_bvalid || m_axil_rvalid) begin
                resp <= write ? m_axil_bresp : m_axil_rresp;
                if (!write) data <= m_axil_rdata;
                state <= SAY;
                at <= 3'd0;
                crc <= 8'd0;
                out <= ANSWER;
                out_valid <= 1'b1;
            end
            default:
            if (out_ready) begin
                at <= at + 3'd1;
                crc <= crc_next;
                case (at)
                    3'd0: out <= {write, 3'd0, resp, unit};
                    3'd1: out <= {2'd0, number};
                    3'd2, 3'd3, 3'd4, 3'd5: {data, out} <= {8'd0, data};
                    default: out <= crc_next;
                endcase
                if (at == 3'd7) begin
                    out_valid <= 1'b0;
                    state <= LISTEN;
                    crc <= 8'd0;
                end
            end
        endcase
        if (state != LISTEN) quiet <= 0;
        if (sys_rst) begin
            state <= LISTEN;
            at <= 3'd0;
            crc <= 8'd0;
            {m_axil_awvalid, m_axil_wvalid, m_axil_arvalid, out_valid, accepted, broken} <= 6'd0;
        end
    end
endmodule

`default_nettype wire
