//! Where nf_tables counts the generations of the ruleset, for kernels that do not show it elsewhere.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::OpenObject;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};

use super::ask::run_on_context;
use super::error::{ProgramError, explained};
use super::program::Program;

skeleton!("generation");

impl Program {
    /// Has the program read the generation where the module `nf_tables` of this kernel counts it, in the network namespace of the
    /// calling thread. The module may have been loaded anew; Linux 6.17 and later need none of this.
    ///
    /// # Errors
    /// What the kernel says; the program knows no generation then.
    pub fn find_generation(&mut self) -> Result<(), ProgramError> {
        self.read_generation_at(0);
        self.read_generation_at(find()?);
        Ok(())
    }

    fn read_generation_at(&mut self, address: u64) {
        if let Some(bss) = self.skeleton.maps.bss_data.as_deref_mut() {
            bss.generation_at = address;
        }
    }
}

/// The address of the number; 0 if it is not known.
fn find() -> Result<u64, ProgramError> {
    let mut object: MaybeUninit<OpenObject> = MaybeUninit::uninit();
    let open = explained(|| skeleton::GenerationSkelBuilder::default().open(&mut object))?;
    let loaded = explained(|| open.load())?;
    let mut found = [0; 8];
    run_on_context(loaded.progs.find_generation.as_fd(), &mut found)?;
    Ok(u64::from_ne_bytes(found))
}
