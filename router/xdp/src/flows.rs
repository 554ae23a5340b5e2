//! The program that forwards flows of Linux's flowtables (`router/xdp/bpf/flow.h`). It calls a function of the module
//! nf_flow_table, so it can be loaded only while that module is there: when the ruleset has a flowtable.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::OpenSkel;

use super::error::{ProgramError, explained};
use super::program::{Program, TailProgram, set_tail};
use super::symbols;

/// Looks flows up; Linux 6.11.
const LOOK_UP: &str = "bpf_xdp_flow_lookup";

/// What flowtables of family `ip` and `ip6` have at the ingress of their devices; those of `inet` have another function.
const AT_INGRESS: [&str; 2] = ["nf_flow_offload_ip_hook", "nf_flow_offload_ipv6_hook"];

impl Program {
    /// Whether flows of Linux's flowtables are forwarded, or why not. `None` before the
    /// first flowtable.
    pub fn forwards_flows(&self) -> Option<&Result<(), String>> {
        self.flows.as_ref()
    }

    /// Whether there is a flowtable: flows are forwarded from then on, if this kernel can look them up. The
    /// program stays until the process ends; so does the module nf_flow_table.
    pub fn want_flows(&mut self, wanted: bool) {
        if !wanted && matches!(self.flows, Some(Err(_))) {
            self.flows = None; // the next flowtable is worth another try
        }
        if !wanted || self.flows.is_some() {
            return;
        }
        let names = [LOOK_UP, AT_INGRESS[0], AT_INGRESS[1]];
        let loaded = match symbols::find(names) {
            Ok([Some(_), of_ip, of_ip6]) => {
                let loaded = self.load_flow_program();
                let loaded = loaded.map(|()| self.tell_flowtables(of_ip, of_ip6));
                loaded.map_err(|error| error.to_string())
            }
            Ok([None, ..]) => Err(format!(
                "this kernel has no {LOOK_UP} (Linux 6.11 and later have it)"
            )),
            Err(error) => Err(error.to_string()),
        };
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

    /// Says which functions at an ingress are of flowtables for IPv4 and for IPv6 alone. They stay where they are, because the
    /// flow program keeps their module.
    fn tell_flowtables(&mut self, of_ip: Option<u64>, of_ip6: Option<u64>) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.other_flowtable = [of_ip6.unwrap_or(0), of_ip.unwrap_or(0)];
        }
    }

    /// Loads it beside the program that is loaded already. The map of programs keeps it.
    fn load_flow_program(&self) -> Result<(), ProgramError> {
        let mut object = MaybeUninit::uninit();
        let open = self.open_again(&mut object, &["flow"], false)?;
        let flows = explained(|| open.load())?;
        set_tail(self.skeleton, TailProgram::Flows, flows.progs.flow.as_fd())
    }
}
