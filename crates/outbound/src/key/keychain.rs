//! The keychain of macOS; elsewhere there is none. A keychain that is locked or may ask nobody has no key for us.

/// The password of the item `sinew` with this account.
#[cfg(target_os = "macos")]
pub(super) fn find(account: &str) -> Option<String> {
    let password = security_framework::passwords::get_generic_password("sinew", account).ok()?;
    String::from_utf8(password).ok()
}

/// There is none here.
#[cfg(not(target_os = "macos"))]
pub(super) fn find(_account: &str) -> Option<String> {
    None
}
