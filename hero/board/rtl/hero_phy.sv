// What a port's PHY (Marvell 88E1512) needs: its reset, MDIO on behalf of the registers, and in between a look at its
// copper status register 17, of which the link is made.
`default_nettype none

module hero_phy #(
    parameter HALF = 24,
    parameter RESET_CYCLES = 2000000,  // of reset_n, and again as long until MDIO begins: 20 ms at 100 MHz
    parameter POLL_CYCLES = 1000000  // between two looks
) (
    input  wire        clk,
    input  wire        rst,
    // From hero_board_regs
    input  wire        reset,     // keep the PHY in reset
    input  wire        hold,      // no looks: a page of registers other than 0 is open
    input  wire [ 4:0] address,   // to look at
    input  wire        command,   // pulse
    input  wire [26:0] what,      // {write, phy 5, register 5, data 16}
    output wire        busy,      // with a command
    output reg         missing,   // nobody answered it
    output reg  [15:0] data,      // that it read
    output reg         link,      // 1 Gbit/s, full duplex
    output reg         present,   // somebody answered the last look
    output reg  [15:0] status,    // what it read
    output reg         reset_n,
    output wire        mdc,
    output wire        mdio_o,
    output wire        mdio_oe,
    input  wire        mdio_i
);
    localparam [4:0] STATUS = 17;
    reg [21:0] wait_reset;
    reg [21:0] wait_poll;
    reg awake;  // the PHY listens
    reg asked;  // a command waits, or is under way
    reg polling;
    wire mdio_busy, done, none;
    wire [15:0] read;
    assign busy = asked;

    reg start, write;
    reg [4:0] phy, reg_n;
    reg [15:0] wr_data;
    hero_mdio #(.HALF(HALF)) mdio (
        .clk(clk), .rst(rst), .start(start), .write(write), .phy(phy), .reg_n(reg_n), .wr_data(wr_data),
        .busy(mdio_busy), .done(done), .rd_data(read), .missing(none), .mdc(mdc), .mdio_o(mdio_o), .mdio_oe(mdio_oe),
        .mdio_i(mdio_i)
    );

    always @(posedge clk) begin
        if (rst || reset) begin
            wait_reset <= RESET_CYCLES[21:0];
            reset_n <= 1'b0;
            awake <= 1'b0;
        end else if (wait_reset != 22'd0) wait_reset <= wait_reset - 22'd1;
        else if (!reset_n) begin
            reset_n <= 1'b1;
            wait_reset <= RESET_CYCLES[21:0];
        end else awake <= 1'b1;
    end

    wire idle = awake && !mdio_busy && !start && !done;
    reg [26:0] held;
    reg mine;  // MDIO is busy with the command
    always @(posedge clk) begin
        start <= 1'b0;
        if (wait_poll != 22'd0) wait_poll <= wait_poll - 22'd1;
        if (command && !asked) begin
            asked <= 1'b1;
            held <= what;
        end
        if (idle && asked) begin
            start <= 1'b1;
            mine <= 1'b1;
            {write, phy, reg_n, wr_data} <= held;
        end else if (idle && wait_poll == 22'd0 && !hold) begin
            start <= 1'b1;
            polling <= 1'b1;
            wait_poll <= POLL_CYCLES[21:0];
            {write, phy, reg_n} <= {1'b0, address, STATUS};
        end
        if (done && mine) begin
            asked <= 1'b0;
            mine <= 1'b0;
            missing <= none;
            data <= read;
        end
        if (done && polling) begin
            polling <= 1'b0;
            present <= !none;
            status <= read;
            // 1000 Mbit/s, full duplex, resolved, up
            link <= !none && read[15:13] == 3'b101 && read[11:10] == 2'b11;
        end
        if (!awake) {link, present} <= 2'b00;
        if (rst) begin
            {start, asked, mine, polling, missing} <= 5'd0;
            wait_poll <= 22'd0;
        end
    end
endmodule

`default_nettype wire
