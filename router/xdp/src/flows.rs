//! The program that forwards flows of Linux's flowtables (`router/xdp/bpf/flow.h`). It reads structures of the module
//! nf_flow_table, and calls its function, so it can be loaded only while that module is there: when the ruleset has a flowtable.

use std::error::Error;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::{fs, io};

use libbpf_rs::skel::OpenSkel;

use super::error::explained;
use super::program::{Program, TailProgram, set_tail};
use super::symbols;

/// What flowtables of family `ip` and `ip6` have at the ingress of their devices; those of `inet` have another function.
const AT_INGRESS: [&str; 2] = ["nf_flow_offload_ip_hook", "nf_flow_offload_ipv6_hook"];

impl Program {
    /// Whether flows of Linux's flowtables are forwarded, or why not. `None` before the
    /// first flowtable.
    pub fn forwards_flows(&self) -> Option<&Result<(), String>> {
        self.flows.as_ref()
    }

    /// Whether there is a flowtable: flows are forwarded from then on, if this kernel says how it keeps them. The
    /// program stays until the process ends; so does the module nf_flow_table where the program calls its function (Linux 6.11).
    pub fn want_flows(&mut self, wanted: bool) {
        if !wanted && matches!(self.flows, Some(Err(_))) {
            self.flows = None; // the next flowtable is worth another try
        }
        if wanted && self.flows.is_none() {
            self.begin_flows();
        }
        let has = wanted && self.flows == Some(Ok(()));
        if has != self.has_flowtables {
            self.tell_flowtables(if has { find_flowtables() } else { [0; 2] }); // the module may go
            self.has_flowtables = has;
        }
    }

    /// Loads the program, and says so.
    fn begin_flows(&mut self) {
        let loaded = self.load_flows().map_err(|error| error.to_string());
        match &loaded {
            Ok(()) => log::info!("flows of flowtables are forwarded by the XDP program"),
            Err(why) => log::warn!("flows of flowtables are left to Linux: {why}"),
        }
        self.flows = Some(loaded);
        if self.shows
            && let Err(error) = self.load_shown()
        {
            log::warn!("captures and traces do not show flows of flowtables: {error}");
        }
    }

    /// Says which function is at the ingress of devices that are in a flowtable of the other IP version, for IPv4 and for IPv6.
    fn tell_flowtables(&mut self, functions: [u64; 2]) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.other_flowtable = functions;
        }
    }

    /// Loads it beside the program that is loaded already. The map of programs keeps it.
    fn load_flows(&self) -> Result<(), Box<dyn Error>> {
        if !has_types()? {
            return Err("this kernel has no type information (BTF) for nf_flow_table".into());
        }
        let mut object = MaybeUninit::uninit();
        let open = self.open_again(&mut object, &["flow"], false)?;
        let flows = explained(|| open.load())?;
        set_tail(self.skeleton, TailProgram::Flows, flows.progs.flow.as_fd())?;
        Ok(())
    }
}

/// The functions that [`Program::tell_flowtables`] says; 0 for one that is not there.
fn find_flowtables() -> [u64; 2] {
    match symbols::find(AT_INGRESS) {
        Ok([of_ip, of_ip6]) => [of_ip6.unwrap_or(0), of_ip.unwrap_or(0)],
        Err(error) => {
            log::warn!("{error}; flowtables of one IP version hold packets of the other one back");
            [0; 2]
        }
    }
}

/// Whether the kernel describes the structures of `nf_flow_table`, be it a module or not.
fn has_types() -> io::Result<bool> {
    let is_module = fs::exists("/sys/module/nf_flow_table/sections")?;
    Ok(!is_module || fs::exists("/sys/kernel/btf/nf_flow_table")?)
}
