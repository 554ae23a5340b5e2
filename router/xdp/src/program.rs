//! One loaded instance of the program with its maps.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bora_contract::{
    FIB_NODES, MAX_PORTS, MAX_QUEUES, MTUS_UNKNOWN, OWN_FILTER, PortSettings, budget_of_window,
};
use libbpf_rs::libbpf_sys::{BPF_F_TEST_XDP_LIVE_FRAMES, BPF_F_XDP_HAS_FRAGS};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, OpenMapMut, OpenObject, ProgramInput, ProgramType,
};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::counters::Counters;
use super::destinations::LinuxDestinations;
use super::error::{ProgramError, explained};
use super::skeleton::types::{self, bora_symbols};
use super::skeleton::{BoraSkel, BoraSkelBuilder, OpenBoraSkel};
use super::survey::Survey;
use super::symbols;

/// VLAN tags as on the wire, without priority, and the number of a PPPoE session; zeros: none.
pub(super) type Headers = ([u8; 8], u16);

/// No tags, no session.
pub(super) const PLAIN: Headers = ([0; 8], 0);

/// The right of the program to act, renewed while Bora is well.
#[derive(Clone, Copy)]
pub struct Lease(&'static AtomicU64);

impl Lease {
    /// Allows the program to act until this time of CLOCK_MONOTONIC, in ns; 0 ends the lease.
    pub fn set(self, until: u64) {
        self.0.store(until, Ordering::Relaxed);
    }
}

/// The loaded program. It acts on a packet only while its [`Lease`] runs.
///
/// Loaded once and kept until the process ends, when the kernel takes everything back but the
/// pinned links.
pub struct Program {
    pub(super) skeleton: &'static mut BoraSkel<'static>,
    symbols: bora_symbols,
    /// Attachments to the kernel's tracepoints; dropped (detached) with the program.
    _tracing: Vec<Link>,
    /// The tracepoint that shows socket buffers to generic XDP, while wanted.
    buffers: Option<Link>,
    sees_veth_buffers: bool,
    /// The router's own addresses and prefixes at each bit of the filter, for IPv4 and IPv6.
    own_counts: [Vec<u32>; 2],
    /// Whether flows of Linux's flowtables are forwarded, or why not; `None` if that was never asked for.
    pub(super) flows: Option<Result<(), String>>,
    /// Whether the program knows the functions of flowtables.
    pub(super) has_flowtables: bool,
    /// Whether the instance is loaded that shows packets to captures and traces.
    pub(super) shows: bool,
}

/// The rows of the map `tail_programs` (`router/xdp/bpf/maps.h`).
#[derive(Clone, Copy)]
pub(super) enum TailProgram {
    Devices = 0,
    Flows = 1,
    Filters = 2,
    Others = 3,
    Shown = 4,
    ShownDevices = 5,
    ShownFlows = 6,
}

/// Puts a program where the main one ends in it.
pub(super) fn set_tail(
    skeleton: &BoraSkel<'_>,
    row: TailProgram,
    program: BorrowedFd<'_>,
) -> Result<(), ProgramError> {
    let (key, fd) = (
        (row as u32).to_ne_bytes(),
        program.as_raw_fd().to_ne_bytes(),
    );
    Ok(skeleton
        .maps
        .tail_programs
        .update(&key, &fd, MapFlags::ANY)?)
}

impl Program {
    /// Loads the program for the ports of one network namespace, named by its inode. `fib_node_pages`:
    /// pages for nodes of Bora's FIB, for each IP version; 0 if it shall ask only Linux's. `fragments`: whether it takes frames
    /// in several buffers (jumbo frames), which Linux 6.3 and later forward. A veth's peer then also sends super-packets (GSO),
    /// which go to Linux.
    pub fn load(
        netns_inode: u32,
        fib_node_pages: u32,
        fragments: bool,
    ) -> Result<Self, ProgramError> {
        let object: &'static mut MaybeUninit<OpenObject> =
            Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = explained(|| BoraSkelBuilder::default().open(object))?;
        let known = symbols::of_kernel();
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.netns_inode = netns_inode;
            rodata.symbols = known;
            rodata.fib_node_pages = fib_node_pages;
            rodata.has_fragments = fragments;
        }
        if fragments {
            take_fragments(&mut open);
        }
        if fib_node_pages > 0 {
            let pages = FIB_NODES + 2 * fib_node_pages;
            open.maps.fib.set_max_entries(pages)?;
        }
        // Without type information in the kernel there are no such tracepoint programs: refused
        // frames then show only in the interface's own statistics, and the lease of a killed Bora
        // just runs out.
        let has_btf = match std::fs::exists("/sys/kernel/btf/vmlinux") {
            Ok(has) => has,
            Err(error) => {
                log::warn!(
                    "/sys/kernel/btf/vmlinux: {error}; Bora does without BPF programs of tracepoints"
                );
                false
            }
        };
        open.progs.count_refused.set_autoload(has_btf);
        open.progs.end_lease.set_autoload(has_btf);
        open.progs.flow.set_autoload(false); // see want_flows()
        open.maps.owner.set_autocreate(has_btf)?;
        let skeleton = Box::leak(Box::new(explained(|| open.load())?));
        set_tail(
            skeleton,
            TailProgram::Devices,
            skeleton.progs.on_port.as_fd(),
        )?;
        let asked = skeleton
            .progs
            .sees_veth_buffers
            .test_run(ProgramInput::default())?;
        let mut tracing = Vec::new();
        if has_btf {
            own(&skeleton.maps.owner)?;
            tracing.push(skeleton.progs.count_refused.attach()?);
            tracing.push(skeleton.progs.end_lease.attach()?);
        }
        Ok(Self {
            skeleton,
            symbols: known,
            _tracing: tracing,
            buffers: None,
            sees_veth_buffers: asked.return_value != 0,
            own_counts: [0, 1].map(|_| vec![0; OWN_FILTER as usize]),
            flows: None,
            has_flowtables: false,
            shows: false,
        })
    }

    /// Opens the object again to load programs of it, with the maps and variables of what is loaded already.
    /// `shows`: they show packets to captures and traces.
    pub(super) fn open_again<'a>(
        &self,
        object: &'a mut MaybeUninit<OpenObject>,
        programs: &[&str],
        shows: bool,
    ) -> Result<OpenBoraSkel<'a>, ProgramError> {
        let mut open = open_some(object, programs, self.takes_fragments())?;
        let loaded = self.skeleton.object();
        for mut map in open.open_object_mut().maps_mut() {
            let name = map.name().to_owned();
            if shows && has_constants(&name) {
                continue; // it has constants of its own
            }
            let there = loaded.maps().find(|there| there.name() == name);
            share(&mut map, there.as_ref().map(AsFd::as_fd))?;
        }
        let constants = self.skeleton.maps.rodata_data;
        if let (true, Some(new), Some(old)) =
            (shows, open.maps.rodata_data.as_deref_mut(), constants)
        {
            *new = *old;
            new.shows = true;
        }
        Ok(open)
    }

    /// Whether it takes frames in several buffers.
    pub fn takes_fragments(&self) -> bool {
        let constants = self.skeleton.maps.rodata_data.as_ref();
        constants.is_some_and(|constants| constants.has_fragments)
    }

    /// Whether it sees the socket buffers of a veth in driver mode, and so VLAN tags: Linux 6.3 and
    /// later. It treats all packets as tagged where it does not.
    pub fn sees_veth_buffers(&self) -> bool {
        self.sees_veth_buffers
    }

    /// Says whether there are ports with generic XDP, whose socket buffers (VLAN tags, hashes) the
    /// program learns of from a tracepoint that every packet of the machine passes.
    ///
    /// # Errors
    /// The kernel refuses the tracepoint.
    pub fn watch_buffers(&mut self, wanted: bool) -> Result<(), ProgramError> {
        match (&self.buffers, wanted) {
            (None, true) => self.buffers = Some(self.skeleton.progs.note_buffer.attach()?),
            (Some(_), false) => self.buffers = None,
            _ => {}
        }
        Ok(())
    }

    /// The network namespace it was loaded for.
    pub fn netns_inode(&self) -> u32 {
        let rodata = self.skeleton.maps.rodata_data;
        rodata.map_or(0, |rodata| rodata.netns_inode)
    }

    /// The program to attach.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.skeleton.progs.bora.as_fd()
    }

    /// A program that passes everything, for [`crate::Attachment::put_back`].
    pub fn idle(&self) -> BorrowedFd<'_> {
        self.skeleton.progs.idle.as_fd()
    }

    /// The lease; it starts out ended. `None` if the kernel does not map BPF variables.
    pub fn lease(&mut self) -> Option<Lease> {
        let until = &raw mut self.skeleton.maps.bss_data.as_deref_mut()?.lease_until;
        // SAFETY: an aligned u64 in memory that libbpf mapped for a skeleton that is never
        // dropped; the BPF program only reads it, and this side only through the atomic.
        Some(Lease(unsafe { AtomicU64::from_ptr(until) }))
    }

    /// Where the slow path notes what Linux forwards. `None` if the kernel does not map BPF variables.
    ///
    /// # Errors
    /// No file descriptor is left for the map.
    pub fn linux_destinations(&mut self) -> Result<Option<LinuxDestinations>, ProgramError> {
        let maps = &mut self.skeleton.maps;
        let map = MapHandle::try_from(&maps.linux_destinations)?;
        let Some(bss) = maps.bss_data.as_deref_mut() else {
            return Ok(None);
        };
        let generation = &raw mut bss.linux_generation;
        // SAFETY: an aligned u32 in memory that libbpf mapped for a skeleton that is never
        // dropped; the BPF program only reads it, and this side only through the atomic.
        let published = unsafe { AtomicU32::from_ptr(generation) };
        Ok(Some(LinuxDestinations::new(map, published)))
    }

    /// Sets the budget of every reason that has one, in packets a second and CPU.
    pub fn set_budget(&mut self, packets_per_second: u64) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.budget.fill(budget_of_window(packets_per_second));
        }
    }

    /// Adds a port or changes its settings. Frames are redirected to it from now on.
    pub fn set_port(&self, ifindex: u32, settings: &PortSettings) -> Result<(), ProgramError> {
        if usize::from(settings.index) >= MAX_PORTS {
            return Err(ProgramError::Range {
                port: settings.index,
                queue: 0,
            });
        }
        self.find_device(settings.index, ifindex)?;
        let maps = &self.skeleton.maps;
        let slot = u32::from(settings.index).to_ne_bytes();
        maps.tx_ports
            .update(&slot, &ifindex.to_ne_bytes(), MapFlags::ANY)?;
        maps.ports
            .update(&slot, &port_row(ifindex, settings), MapFlags::ANY)?;
        self.set_interface(ifindex, PLAIN, settings.index)
    }

    /// Lets the program look at the hooks of the device that a port's packets leave by. Packets are held
    /// back as if it had some if it is not found.
    pub fn find_device(&self, index: u16, ifindex: u32) -> Result<(), ProgramError> {
        let mut find = [ifindex.to_ne_bytes(), u32::from(index).to_ne_bytes()].concat();
        self.skeleton.progs.find_device.test_run(ProgramInput {
            context_in: Some(&mut find),
            ..ProgramInput::default()
        })?;
        Ok(())
    }

    /// Puts a frame in at an interface, as if it had come by the first queue: it is really forwarded, or left to Linux.
    ///
    /// # Errors
    /// The kernel refuses: it is older than Linux 5.18, or the interface is down.
    pub fn inject(&self, ifindex: u32, frame: &[u8]) -> Result<(), ProgramError> {
        // metadata, by which the program knows that no driver brought it (was_put_in() in router/xdp/bpf/buffer.h)
        let octets = [&[0; 4], frame].concat();
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex
        let context = [4, octets.len() as u32, 0, ifindex, 0, 0];
        let mut context: Vec<u8> = context.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.skeleton.progs.bora.test_run(ProgramInput {
            context_in: Some(&mut context),
            data_in: Some(&octets),
            flags: BPF_F_TEST_XDP_LIVE_FRAMES,
            repeat: 1,
            ..ProgramInput::default()
        })?;
        Ok(())
    }

    /// What the guard sees now.
    ///
    /// # Errors
    /// The kernel refuses something, or [`ProgramError::Survey`].
    pub fn survey(&self) -> Result<Survey, ProgramError> {
        let input = ProgramInput::default();
        let ran = self.skeleton.progs.survey.test_run(input)?;
        let bss = self.skeleton.maps.bss_data.as_deref();
        match bss.filter(|_| ran.return_value == 1) {
            Some(bss) => Ok(Survey::new(&bss.found)),
            None => Err(ProgramError::Survey),
        }
    }

    /// What this kernel does not have or hides, and what is lost by that; one sentence each.
    pub fn lacks(&self) -> Vec<&'static str> {
        let (known, mut lacks) = (&self.symbols, Vec::new());
        match self.survey() {
            Ok(survey) if survey.direct => {}
            Ok(_) => lacks.push(
                "no bpf_rdonly_cast (Linux 6.2): looking at Linux's hooks takes longer for each packet",
            ),
            Err(error) => log::warn!("cannot look at Linux's hooks: {error}"),
        }
        if known.apparmor_ip_postroute == 0 && known.selinux_ip_forward == 0 {
            lacks.push(
                "/proc/kallsyms names no hook of a security module (none is built in, or \
                 kernel.kptr_restrict=2 hides them): if one is registered, all traffic is left to Linux",
            );
        } else if known.selinux_ip_forward != 0 && known.selinux_state == 0 {
            lacks.push(
                "/proc/kallsyms has no variables (CONFIG_KALLSYMS_ALL): where SELinux's hooks are \
                 registered, all traffic is left to Linux",
            );
        }
        if known.egress_needed_key == 0 {
            lacks.push(
                "/proc/kallsyms does not name egress_needed_key: the output's hooks are looked at for \
                 each packet, which costs a little time",
            );
        }
        lacks
    }

    /// Takes a port out: what comes in there is Linux's from now on, and nothing is redirected to it
    /// or to its sockets. Its counters stay.
    pub fn remove_port(&self, index: u16) -> Result<(), ProgramError> {
        self.find_device(index, 0)?;
        let maps = &self.skeleton.maps;
        let slot = u32::from(index).to_ne_bytes();
        let row = maps.ports.lookup(&slot, MapFlags::ANY)?;
        if let Some(ifindex) = row.as_deref().and_then(<[u8]>::first_chunk) {
            self.forget_interface(u32::from_ne_bytes(*ifindex), PLAIN)?;
        }
        let none = port_row(0, &PortSettings::default());
        maps.ports.update(&slot, &none, MapFlags::ANY)?;
        maps.tx_ports.delete(&slot)?;
        for queue in 0..MAX_QUEUES {
            let slot = u32::from(index) * MAX_QUEUES + queue;
            maps.sockets.delete(&slot.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Gives the engine's socket the transit traffic of one queue.
    pub fn set_socket(
        &self,
        port: u16,
        queue: u32,
        socket: BorrowedFd<'_>,
    ) -> Result<(), ProgramError> {
        if usize::from(port) >= MAX_PORTS || queue >= MAX_QUEUES {
            return Err(ProgramError::Range { port, queue });
        }
        let slot = u32::from(port) * MAX_QUEUES + queue;
        let fd = socket.as_raw_fd().to_ne_bytes();
        self.skeleton
            .maps
            .sockets
            .update(&slot.to_ne_bytes(), &fd, MapFlags::ANY)?;
        Ok(())
    }

    /// Adds or removes an address of the router itself (broadcast addresses too), or a prefix: one that the program has
    /// not, or has. After an error it has what it had.
    pub fn set_local(
        &mut self,
        address: IpAddr,
        length: u8,
        present: bool,
    ) -> Result<(), ProgramError> {
        if present {
            self.count_local(address, length, true); // the filter is asked before the map
        }
        let maps = &self.skeleton.maps;
        let written = match address {
            IpAddr::V4(address) if length == 32 => {
                set_member(&maps.local4, &address.octets(), present)
            }
            IpAddr::V6(address) if length == 128 => {
                set_member(&maps.local6, &address.octets(), present)
            }
            IpAddr::V4(_) => set_member(&maps.local_prefixes, &route_key(address, length), present),
            IpAddr::V6(_) => {
                set_member(&maps.local_prefixes6, &route_key(address, length), present)
            }
        };
        match &written {
            Ok(()) if present => {}
            Err(_) if !present => {} // it is still there
            _ => self.count_local(address, length, false),
        }
        written
    }

    /// Counts one address or prefix more or less, in the filter and in the number of prefixes: what is not there costs a
    /// packet no look-up.
    fn count_local(&mut self, address: IpAddr, length: u8, more: bool) {
        let v6 = usize::from(address.is_ipv6());
        let bit = own_filter_bit(&address);
        let is_prefix = length < if address.is_ipv4() { 32 } else { 128 };
        let step = |count: &mut u32| {
            *count = if more {
                *count + 1
            } else {
                count.saturating_sub(1)
            }
        };
        let count = &mut self.own_counts[v6][bit];
        step(count);
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            let (word, mask) = (&mut bss.own_filter[v6][bit / 32], 1u32 << (bit % 32));
            if *count > 0 {
                *word |= mask;
            } else {
                *word &= !mask;
            }
            if is_prefix {
                step(&mut bss.local_prefix_count[v6]);
            }
        }
    }

    /// Adds or changes (`Some`) or removes (`None`) the MTU of a route, in octets.
    pub fn set_route_mtu(
        &mut self,
        address: IpAddr,
        length: u8,
        mtu: Option<u32>,
    ) -> Result<(), ProgramError> {
        let key = route_key(address, length);
        let map = match address {
            IpAddr::V4(_) => &self.skeleton.maps.route_mtus,
            IpAddr::V6(_) => &self.skeleton.maps.route_mtus6,
        };
        match mtu {
            Some(mtu) => map.update(&key, &mtu.to_ne_bytes(), MapFlags::ANY)?,
            None => map.delete(&key)?,
        }
        Ok(())
    }

    /// Says how many routes of IPv4 and IPv6 have an MTU, so that none costs nothing. `None`: more than
    /// the program could be told; express then leaves all of that IP version to Linux.
    pub fn set_route_mtu_counts(&mut self, counts: [Option<usize>; 2]) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.route_mtu_count =
                counts.map(|count| count.map_or(MTUS_UNKNOWN, |count| count as u32));
        }
    }

    /// Says how flows are divided among paths, IPv4 and IPv6: fib_multipath_hash_policy, and
    /// fib_multipath_hash_fields; `None` while no route has several. `seed`: fib_multipath_hash_seed.
    pub fn set_multipath(&mut self, ways: [Option<(u8, u32)>; 2], seed: u32) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.multipath_fields = ways.map(|way| way.map_or(0, |(_, fields)| fields));
            bss.multipath_seed = seed;
            bss.multipath_policy =
                ways.map(|way| way.map_or(0, |(policy, _)| policy.saturating_add(1)));
        }
    }

    /// Says whether Linux may answer solicitations for others: net.ipv6.conf.all.proxy_ndp.
    pub fn set_proxy_ndp(&mut self, proxy: bool) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.proxy_ndp = proxy.into();
        }
    }

    /// Says whether Bora offers flows of IPv4 and of IPv6 a flowtable of its own.
    pub fn set_own_flows(&mut self, offered: [bool; 2]) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.own_flows = offered.map(u8::from);
        }
    }

    /// The counters of one port.
    pub fn counters(&self, port: u16) -> Result<Counters, ProgramError> {
        let key = u32::from(port).to_ne_bytes();
        let per_cpu = self
            .skeleton
            .maps
            .counters
            .lookup_percpu(&key, MapFlags::ANY)?;
        Ok(Counters::sum(&per_cpu.unwrap_or_default()))
    }
}

/// Opens the object to load these programs of it. `fragments`: they take frames in several buffers, as all programs that call
/// each other must or must not.
pub(super) fn open_some<'a>(
    object: &'a mut MaybeUninit<OpenObject>,
    programs: &[&str],
    fragments: bool,
) -> Result<OpenBoraSkel<'a>, ProgramError> {
    let mut open = explained(|| BoraSkelBuilder::default().open(object))?;
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = programs.iter().any(|name| program.name() == *name);
        program.set_autoload(wanted);
    }
    if fragments {
        take_fragments(&mut open);
    }
    Ok(open)
}

/// Has all XDP programs of the object take frames in several buffers.
fn take_fragments(open: &mut OpenBoraSkel<'_>) {
    let programs = open.open_object_mut().progs_mut();
    let programs = programs.filter(|program| program.prog_type() == ProgramType::Xdp);
    programs.for_each(|mut program| program.set_flags(BPF_F_XDP_HAS_FRAGS));
}

/// Whether a map has the constants of an instance.
pub(super) fn has_constants(map: &OsStr) -> bool {
    map.to_string_lossy().ends_with(".rodata")
}

/// Has an instance use a map that is there already; without one it gets none.
pub(super) fn share(
    map: &mut OpenMapMut<'_>,
    there: Option<BorrowedFd<'_>>,
) -> Result<(), ProgramError> {
    match there {
        Some(there) => map.reuse_fd(there)?,
        None => map.set_autocreate(false)?,
    }
    Ok(())
}

/// Marks this process in the map of tasks, so that its end ends the lease.
fn own(tasks: &impl MapCore) -> Result<(), ProgramError> {
    let this = pidfd_open(getpid(), PidfdFlags::empty()).map_err(std::io::Error::from)?;
    let key = this.as_raw_fd().to_ne_bytes();
    tasks.update(&key, &[1], MapFlags::ANY)?;
    Ok(())
}

/// `struct port_row`.
pub(super) fn port_row(
    ifindex: u32,
    settings: &PortSettings,
) -> [u8; size_of::<types::port_row>()] {
    let mut row = [0; size_of::<types::port_row>()];
    let settings = settings.to_bytes();
    row[..4].copy_from_slice(&ifindex.to_ne_bytes());
    row[4..4 + settings.len()].copy_from_slice(&settings);
    row
}

/// The bit of an address in the filter, which may_be_own() computes too (`router/xdp/bpf/gate.h`).
fn own_filter_bit(address: &IpAddr) -> usize {
    let fold = |octets: &[u8]| {
        let words = octets.as_chunks().0.iter();
        words.fold(0, |folded, word| folded ^ u32::from_ne_bytes(*word))
    };
    let folded = match address {
        IpAddr::V4(address) => fold(&address.octets()),
        IpAddr::V6(address) => fold(&address.octets()),
    };
    (folded.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

/// `struct route_key` or `route_key6`.
fn route_key(address: IpAddr, length: u8) -> Vec<u8> {
    let mut key = u32::from(length).to_ne_bytes().to_vec();
    match address {
        IpAddr::V4(address) => key.extend(address.octets()),
        IpAddr::V6(address) => key.extend(address.octets()),
    }
    key
}

fn set_member(map: &impl MapCore, key: &[u8], present: bool) -> Result<(), ProgramError> {
    if present {
        map.update(key, &[1], MapFlags::ANY)?;
    } else if map.lookup(key, MapFlags::ANY)?.is_some() {
        map.delete(key)?;
    }
    Ok(())
}
