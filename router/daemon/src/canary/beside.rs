//! A Bora that only decides, beside the one that forwards.

use std::time::{Duration, Instant};

use super::judge::Judge;
use super::verdict::{Asked, Verdict};
use crate::config::File;
use crate::data_plane::DataPlane;
use crate::ports::another::AnothersPort;
use crate::process::runtime_dir::RuntimeDir;
use crate::proof::facts::{Facts, Parts};

/// How often settings that have no events are read again.
const REFRESH: Duration = Duration::from_secs(1);

/// Mirror, FIB, tables and XDP program of this binary, of the configuration and the ports of another Bora. It attaches and opens
/// nothing, and changes nothing in Linux.
pub struct Beside {
    config: File,
    plane: DataPlane,
    judge: Judge,
    refreshed: Instant,
}

impl Beside {
    /// Reads Linux's tables, which takes as long as at the start of a Bora. `ports`: as the other one has them.
    ///
    /// # Errors
    /// What is wrong with the configuration for this binary, or what the kernel refuses.
    pub fn start(config: File, dir: RuntimeDir, ports: &[AnothersPort]) -> anyhow::Result<Self> {
        config.check()?;
        let plane = DataPlane::beside(&config, dir, ports)?;
        let judge = Judge::new(Parts::of_plane(&plane))?;
        Ok(Self {
            config,
            plane,
            judge,
            refreshed: Instant::now(),
        })
    }

    /// What this binary does with each packet, by Linux's tables as they are now.
    ///
    /// # Errors
    /// Linux cannot be followed.
    pub fn decide(&mut self, asked: &[Asked]) -> anyhow::Result<Vec<Verdict>> {
        let refresh = self.refreshed.elapsed() >= REFRESH;
        if refresh {
            self.refreshed = Instant::now();
        }
        self.plane.only_follow(&self.config, refresh)?;
        self.judge.adopt(Facts::of_plane(&self.plane, &self.config));
        Ok(self.judge.decide(asked))
    }
}
