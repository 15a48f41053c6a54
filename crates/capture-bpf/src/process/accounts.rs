//! Names of users and groups, as this machine resolves them (files, LDAP ...).

use std::collections::HashMap;
use std::ffi::{CStr, c_char};

/// Longest record of a user or group that is looked at.
const LONGEST: usize = 1 << 20;

/// Names by number, remembered until they are forgotten.
#[derive(Default)]
pub struct Accounts {
    users: HashMap<u32, Option<String>>,
    groups: HashMap<u32, Option<String>>,
}

impl Accounts {
    /// The name of a user.
    pub fn user(&mut self, uid: u32) -> Option<String> {
        let ask = || {
            lookup(|buffer, result| {
                // SAFETY: all zeroes is a valid `passwd`, which is only read after the call has filled it.
                let mut record: libc::passwd = unsafe { std::mem::zeroed() };
                let mut found = std::ptr::null_mut();
                // SAFETY: every pointer is valid for the call, and the length is that of the buffer.
                let status =
                    unsafe { libc::getpwuid_r(uid, &mut record, buffer.as_mut_ptr(), buffer.len(), &mut found) };
                *result = (!found.is_null()).then_some(record.pw_name.cast_const());
                status
            })
        };
        self.users.entry(uid).or_insert_with(ask).clone()
    }

    /// The name of a group.
    pub fn group(&mut self, gid: u32) -> Option<String> {
        let ask = || {
            lookup(|buffer, result| {
                // SAFETY: all zeroes is a valid `group`, which is only read after the call has filled it.
                let mut record: libc::group = unsafe { std::mem::zeroed() };
                let mut found = std::ptr::null_mut();
                // SAFETY: every pointer is valid for the call, and the length is that of the buffer.
                let status =
                    unsafe { libc::getgrgid_r(gid, &mut record, buffer.as_mut_ptr(), buffer.len(), &mut found) };
                *result = (!found.is_null()).then_some(record.gr_name.cast_const());
                status
            })
        };
        self.groups.entry(gid).or_insert_with(ask).clone()
    }

    /// Accounts may be added and renamed.
    pub fn forget(&mut self) {
        self.users.clear();
        self.groups.clear();
    }
}

/// Asks with a buffer that grows until the answer fits.
fn lookup(ask: impl Fn(&mut [c_char], &mut Option<*const c_char>) -> i32) -> Option<String> {
    let mut buffer = vec![0; 1024];
    loop {
        let mut name = None;
        match ask(&mut buffer, &mut name) {
            libc::ERANGE if buffer.len() < LONGEST => buffer.resize(buffer.len() * 2, 0),
            // SAFETY: the name lies in the buffer, with a zero behind it.
            0 => return name.map(|name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_id() {
        let mut accounts = Accounts::default();
        assert_eq!(accounts.user(0).as_deref(), Some("root"));
        let id = |option: &str| {
            let id = std::process::Command::new("id").args([option, "-n", "nobody"]).output().unwrap();
            String::from_utf8(id.stdout).unwrap().trim().to_owned()
        };
        let number = |option: &str| -> u32 {
            let id = std::process::Command::new("id").args([option, "nobody"]).output().unwrap();
            String::from_utf8(id.stdout).unwrap().trim().parse().unwrap()
        };
        assert_eq!(accounts.user(number("-u")), Some(id("-u")));
        assert_eq!(accounts.group(number("-g")), Some(id("-g")));
        assert_eq!((accounts.user(4_000_000_000), accounts.group(4_000_000_000)), (None, None));
    }
}
