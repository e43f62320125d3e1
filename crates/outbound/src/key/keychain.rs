//! Keychain of macOS. A locked keychain, or one that cannot ask its owner, gives no key.

/// Returns the password of the item `sinew` with this account.
#[cfg(target_os = "macos")]
pub(super) fn find(account: &str) -> Option<String> {
    let password = security_framework::passwords::get_generic_password("sinew", account).ok()?;
    String::from_utf8(password).ok()
}

/// Always `None`: only macOS has a keychain.
#[cfg(not(target_os = "macos"))]
pub(super) fn find(_account: &str) -> Option<String> {
    None
}
