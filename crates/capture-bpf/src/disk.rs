//! What a disk is, as sysfs has it.

use crate::probe::read_trimmed;
use latscope_event::{Batch, Context, Field, MISSING_CODE};
use std::path::Path;

/// What is known of a disk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Disk {
    /// Its model, where its driver gives one.
    pub model: Option<String>,
    /// Whether it says that it rotates.
    pub is_rotational: Option<bool>,
}

impl Disk {
    /// The disk of this device number, of a partition the whole one.
    pub fn read(dev: u32) -> Disk {
        let own = Path::new("/sys/dev/block").join(format!("{}:{}", dev >> 20, dev & 0xf_ffff));
        let Ok(own) = own.canonicalize() else { return Disk::default() };
        let whole = if own.join("partition").exists() { own.parent().unwrap_or(&own) } else { &own };
        let file = |name: &str| read_trimmed(whole.join(name)).filter(|text| !text.is_empty());
        Disk {
            model: file("device/model"),
            is_rotational: file("queue/rotational").map(|rotational| rotational == "1"),
        }
    }

    /// The properties of a trace that describe it.
    pub fn properties(self, name: &str) -> impl Iterator<Item = (String, String)> + use<> {
        let rotational = self.is_rotational.map(|rotational| u8::from(rotational).to_string());
        let values = [("model", self.model), ("rotational", rotational)];
        let name = format!("{}{name}", Context::DISK);
        values.into_iter().filter_map(move |(what, text)| Some((format!("{name}.{what}"), text?)))
    }

    /// The codes of its columns in a batch.
    pub fn codes(&self, batch: &mut Batch) -> [(Field, u32); 2] {
        let mut code =
            |field, text: Option<&str>| text.map_or(MISSING_CODE, |text| batch.intern(field, text.as_bytes()));
        let rotational = self.is_rotational.map(|rotational| if rotational { "true" } else { "false" });
        [
            (Field::DiskModel, code(Field::DiskModel, self.model.as_deref())),
            (Field::Rotational, code(Field::Rotational, rotational)),
        ]
    }
}
