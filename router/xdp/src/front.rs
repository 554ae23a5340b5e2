//! The program that runs the filters of captures and traces, as [`bora_capture::front`] writes it.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use bora_capture::Native;
use libbpf_rs::libbpf_sys as sys;

use super::link::check;

/// Loads it; `fragments`: it takes frames in several buffers, as those that it calls. It stays while its descriptor is kept or
/// is in a map.
///
/// # Errors
/// The kernel refuses.
pub(super) fn load(code: &[Native], fragments: bool) -> io::Result<OwnedFd> {
    let mut options = sys::bpf_prog_load_opts {
        sz: size_of::<sys::bpf_prog_load_opts>() as u64,
        prog_flags: if fragments {
            sys::BPF_F_XDP_HAS_FRAGS
        } else {
            0
        },
        expected_attach_type: sys::BPF_XDP, // as the programs that it shares the map of programs with
        ..Default::default()
    };
    // SAFETY: the pointers are to a string that ends with 0, to as many instructions as is said, in the layout of
    // `struct bpf_insn` (`Native` is `repr(C)`), and to options of the size that they say; all live for the call.
    let fd = unsafe {
        sys::bpf_prog_load(
            sys::BPF_PROG_TYPE_XDP,
            c"bora_filters".as_ptr(),
            c"GPL".as_ptr(),
            code.as_ptr().cast(),
            code.len() as u64,
            &raw mut options,
        )
    };
    check(fd)?;
    // SAFETY: a descriptor that was just made and that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd};

    use bora_capture::{Filter, Instruction, Subscription, Surroundings, front};
    use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
    use proptest::prelude::*;

    use super::*;

    /// Every operation of classic BPF that a filter may have, without jumps.
    const OPERATIONS: [u16; 41] = [
        0x00, 0x01, 0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x60, 0x61, 0x80, 0x81, 0xb1, 0x02, 0x03,
        0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74,
        0x7c, 0x84, 0x94, 0x9c, 0xa4, 0xac, 0x06, 0x16, 0x07, 0x87, 0x05,
    ];
    const JUMPS: [u16; 8] = [0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d];

    /// Octets of `struct watch_look`.
    const LOOK: u32 = 24;

    /// The maps that the program needs.
    struct Maps {
        looks: MapHandle,
        variables: MapHandle,
        programs: MapHandle,
    }

    impl Maps {
        fn new() -> Self {
            let create = |kind, value| {
                let options = sys::bpf_map_create_opts {
                    sz: size_of::<sys::bpf_map_create_opts>() as u64,
                    ..Default::default()
                };
                MapHandle::create(kind, Some("test"), 4, value, 1, &options).unwrap()
            };
            Self {
                looks: create(MapType::PercpuArray, LOOK),
                variables: create(MapType::Array, 32),
                programs: create(MapType::ProgArray, 4),
            }
        }

        fn front(&self, subscriptions: &[Subscription]) -> OwnedFd {
            let around = Surroundings {
                looks: self.looks.as_fd().as_raw_fd(),
                variables: self.variables.as_fd().as_raw_fd(),
                allowed: 0,
                lost: 16,
                programs: self.programs.as_fd().as_raw_fd(),
                taken: 0,
                others: 0,
            };
            self.allow([i64::MAX; 2]);
            let code = front(subscriptions.iter().enumerate(), around).unwrap();
            load(&code, false).unwrap()
        }

        /// Says how many packets two subscriptions may see; nothing is lost yet.
        fn allow(&self, packets: [i64; 2]) {
            let words = [packets[0], packets[1], 0, 0];
            let value: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            self.variables
                .update(&[0; 4], &value, MapFlags::ANY)
                .unwrap();
        }

        fn looks(&self) -> Vec<Vec<u8>> {
            let looks = self.looks.lookup_percpu(&[0; 4], MapFlags::ANY);
            looks.unwrap().unwrap()
        }

        /// What the filters find of a packet: a bit for each that takes it.
        fn find(&self, front: &OwnedFd, packet: &[u8]) -> u32 {
            let mut looks = self.looks();
            looks.iter_mut().for_each(|look| look[4..8].fill(0));
            self.looks
                .update_percpu(&[0; 4], &looks, MapFlags::ANY)
                .unwrap();
            let mut options = sys::bpf_test_run_opts {
                sz: size_of::<sys::bpf_test_run_opts>() as u64,
                data_in: packet.as_ptr().cast(),
                data_size_in: packet.len() as u32,
                ..Default::default()
            };
            // SAFETY: the options point to a packet of the length that is said, which lives for the call.
            let done = unsafe { sys::bpf_prog_test_run_opts(front.as_raw_fd(), &raw mut options) };
            assert_eq!((done, options.retval), (0, 2));
            let looks = self.looks();
            let words = looks
                .iter()
                .map(|look| u32::from_ne_bytes(look[4..8].try_into().unwrap()));
            words.sum()
        }
    }

    fn is_root() -> bool {
        let root = rustix::process::geteuid().is_root();
        if !root {
            bora_testing::skip("loading BPF programs needs root");
        }
        root
    }

    fn programs() -> impl Strategy<Value = Filter> {
        let plain = (prop::sample::select(&OPERATIONS[..]), Just((0, 0)));
        let jump = (prop::sample::select(&JUMPS[..]), (0..4u8, 0..4u8));
        let one = (
            prop_oneof![2 => plain, 1 => jump],
            prop_oneof![0..16u32, 0..80u32, any::<u32>()],
        );
        let program = prop::collection::vec(one, 1..40);
        program.prop_map(|program| {
            let program = program
                .into_iter()
                .map(|((code, (jt, jf)), k)| Instruction {
                    code,
                    jt,
                    jf,
                    k: match code {
                        0x60 | 0x61 | 0x02 | 0x03 => k % 16,
                        0x34 | 0x94 => k.max(1),
                        0x64 | 0x74 => k % 32,
                        0x05 => k % 4,
                        _ => k,
                    },
                });
            // one bit of A decides, so that a wrong result shows
            let bit = [(0x54, 1), (0x16, 0), (0x16, 0), (0x16, 0), (0x16, 0)];
            let end = bit.map(|(code, k)| Instruction {
                code,
                k,
                ..Instruction::default()
            });
            Filter::new(program.chain(end).collect()).unwrap()
        })
    }

    #[test]
    fn what_is_too_much_is_counted() {
        if !is_root() {
            return;
        }
        let maps = Maps::new();
        let subscriptions = [0, 1].map(|_| Subscription::new(Filter::everything(), 1, 0));
        let front = maps.front(&subscriptions);
        maps.allow([i64::MAX, 3]);
        let found: Vec<u32> = (0..5).map(|_| maps.find(&front, &[0; 60])).collect();
        assert_eq!(found, [3, 3, 3, 1, 1]);
        let variables = maps.variables.lookup(&[0; 4], MapFlags::ANY).unwrap();
        assert_eq!(variables.unwrap()[24..], 2u64.to_ne_bytes());
    }

    #[test]
    fn one_of_so_many_is_sampled() {
        if !is_root() {
            return;
        }
        let maps = Maps::new();
        let subscriptions =
            [10, 1].map(|one_in| Subscription::new(Filter::everything(), one_in, 0));
        let front = maps.front(&subscriptions);
        let found: Vec<u32> = (0..5000).map(|_| maps.find(&front, &[0; 60])).collect();
        assert!(found.iter().all(|bits| bits & 2 != 0));
        let sampled = found.iter().filter(|&bits| bits & 1 != 0).count();
        assert!((400..600).contains(&sampled), "{sampled} of 5000");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The kernel's machine code says what the workers' interpreter says.
        #[test]
        fn both_tiers_agree(
            filters in prop::collection::vec(programs(), 1..3),
            packet in prop::collection::vec(any::<u8>(), 14..200),
        ) {
            if is_root() {
                let bits = filters.iter().enumerate();
                let expected: u32 = bits.map(|(place, filter)| u32::from(filter.takes(&packet)) << place).sum();
                let subscriptions: Vec<Subscription> = filters.iter().map(|filter| Subscription::new(filter.clone(), 1, 0)).collect();
                let maps = Maps::new();
                prop_assert_eq!(maps.find(&maps.front(&subscriptions), &packet), expected);
            }
        }
    }
}
