//! An error for people: what was tried, then why it failed, each said once.

use anyhow::Error;

/// The causes from the outermost in, with colons between. Many an error names its cause in its own text; it is not named again.
pub fn of(error: &Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        match text.as_str() {
            "" => text = cause,
            said if said.ends_with(&cause) => {}
            said => text = format!("{said}: {cause}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[derive(Debug)]
    struct Named(std::io::Error);

    impl std::fmt::Display for Named {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "the port failed: {}", self.0)
        }
    }

    impl std::error::Error for Named {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_is_said_once() {
        let denied = || std::io::Error::from_raw_os_error(13);
        let error = Err::<(), _>(Named(denied())).context("the node did not start").expect_err("it failed");
        assert_eq!(of(&error), "the node did not start: the port failed: Permission denied (os error 13)");
        let error = Err::<(), _>(denied()).context("x.toml cannot be read").expect_err("it failed");
        assert_eq!(of(&error), "x.toml cannot be read: Permission denied (os error 13)");
    }
}
