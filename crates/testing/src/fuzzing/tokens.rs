//! Access tokens, lease tokens, and the cookie of the console.

use domain::{LeaseToken, TokenText, token::sha256_of};

/// Input: the text of a token of any kind.
pub fn tokens(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    access::fuzzing::cookies(&text);
    assert_eq!(sha256_of(&text).len(), 64);
    if let Some(token) = TokenText::parse(&text) {
        assert_eq!(token.reveal(), text);
        assert!(token.id().len() == 12 && text[4..].starts_with(token.id()));
        assert!(!format!("{token:?}").contains(&text[17..]));
    }
    let Ok(lease) = LeaseToken::decode(&text) else { return };
    assert_eq!(LeaseToken::decode(&lease.encode()).as_ref(), Ok(&lease));
    // The scripts must find three parts, too: no part contains the separator.
    let member = lease.member();
    let parts: Vec<&str> = member.split('/').collect();
    let sequence = lease.sequence.to_string();
    assert_eq!(parts, [lease.destination.as_str(), &sequence, &lease.secret]);
    if let Some(holder) = LeaseToken::holder_of(&lease.secret) {
        let (random, _) = lease.secret.split_once('@').unwrap();
        assert_eq!(LeaseToken::secret_of(random, Some(&holder)), lease.secret);
    }
}
