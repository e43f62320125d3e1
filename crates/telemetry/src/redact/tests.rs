//! Samples of secrets and of what looks like them.
//!
//! A sample is the text itself with each secret marked as `⟦detector⟧secret⟦⟧`; what is not marked must stay. `¦` is
//! taken out first: it keeps scanners of this repository from finding the samples.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::*;

const CLOUD: &[&str] = &[
    "⟦aws_access_key_id⟧AK¦IAIOSFODNN7EXAMPLE⟦⟧",
    "id=⟦aws_access_key_id⟧AS¦IAIOSFODNN7EXAMPLE⟦⟧,",
    "⟦aws_access_key_id⟧AK¦IAIOSFODNN7EXAMPLE⟦⟧ ⟦aws_access_key_id⟧AK¦IAI44QH8DHBEXAMPLE⟦⟧",
    "_⟦aws_access_key_id⟧AK¦IAABCDEFGHIJKLMNOP⟦⟧_",
    "[default]\naws_access_key_id = ⟦aws_access_key_id⟧AK¦IAIOSFODNN7EXAMPLE⟦⟧\naws_secret_access_key = ⟦aws_secret_access_key⟧wJ¦alrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟦⟧\n",
    "aws: ⟦aws_secret_access_key⟧wJ¦alrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟦⟧",
    "export AWS_SECRET_ACCESS_KEY=\"⟦aws_secret_access_key⟧wJ¦alrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟦⟧\"",
    "AWS_SESSION_TOKEN=⟦assignment⟧FwoGZXIvYXdzEBYaDHqa0AP⟦⟧ x",
    "⟦google_key⟧AI¦zaSyA-0123456789abcdefghijklmnopqrst_⟦⟧",
    "https://maps.example/api?key=⟦google_key⟧AI¦zaSyA-0123456789abcdefghijklmnopqrst_⟦⟧&v=3",
    "⟦google_key⟧GO¦CSPX-abcdefghijklmnopqrstuvwxyz12⟦⟧",
    "⟦google_key⟧ya¦29.a0AfH6SMBxxxxxxxxxxxxxxxxxxxx-yyyyyy⟦⟧",
    "refresh ⟦google_key⟧1/¦/0gabcdefghijklmnopqrstuvwxyz0123456789ABCD⟦⟧",
    "AccountName=x;AccountKey=⟦azure_key⟧Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==⟦⟧;E=y",
    "Endpoint=sb://x/;SharedAccessKey=⟦azure_key⟧abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG=⟦⟧",
    "https://x.blob.core.windows.net/c?sv=2020&sig=⟦azure_key⟧abc%2Fdefghijklmnopqrstuvwxyz0123456789%3D⟦⟧",
    "⟦azure_key⟧abc8Q~0123456789abcdefghijklmnopqrstuv⟦⟧",
    "⟦service_token⟧do¦p_v1_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef⟦⟧",
    "⟦service_token⟧hvs.CAESIJ0123456789abcdefghijkl⟦⟧",
];

const FORGES: &[&str] = &[
    "⟦github_token⟧gh¦p_0123456789abcdefghijABCDEFGHIJ012345⟦⟧",
    "⟦github_token⟧gh¦o_0123456789abcdefghijABCDEFGHIJ012345⟦⟧",
    "⟦github_token⟧gh¦u_0123456789abcdefghijABCDEFGHIJ012345⟦⟧",
    "⟦github_token⟧gh¦s_0123456789abcdefghijABCDEFGHIJ012345⟦⟧",
    "⟦github_token⟧gh¦r_0123456789abcdefghijABCDEFGHIJ012345⟦⟧",
    "x⟦github_token⟧gh¦p_0123456789abcdefghijABCDEFGHIJ012345⟦⟧.",
    "⟦github_token⟧github¦_pat_11AAAAAAA0abcdefghijkl_mnopqrstuvwxyz0123456789⟦⟧",
    "GITHUB_TOKEN=⟦github_token⟧gh¦p_0123456789abcdefghijABCDEFGHIJ012345⟦⟧",
    "https://⟦github_token⟧gh¦p_0123456789abcdefghijABCDEFGHIJ012345⟦⟧@github.com/a/b.git",
    "https://⟦github_token⟧x-access-token:gh¦s_0123456789abcdefghijABCDEFGHIJ012345⟦⟧@github.com/a/b.git",
    "{\"t\":\"⟦github_token⟧gh¦p_0123456789abcdefghijABCDEFGHIJ012345⟦⟧\"}",
    "⟦gitlab_token⟧gl¦pat-0123456789abcdefghij⟦⟧",
    "CI: ⟦gitlab_token⟧gl¦rt-0123456789abcdefghij_-x⟦⟧;",
    "⟦npm_token⟧np¦m_0123456789abcdefghijABCDEFGHIJ012345⟦⟧",
    "//registry.npmjs.org/:_authToken=⟦npm_token⟧np¦m_0123456789abcdefghijABCDEFGHIJ012345⟦⟧",
    "//registry.example/:_authToken=⟦assignment⟧0123-4567-89ab⟦⟧",
    "⟦pypi_token⟧py¦pi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3LTg5YWItY2RlZi0wMTIz⟦⟧",
    "TWINE_PASSWORD=⟦pypi_token⟧py¦pi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3LTg5YWItY2RlZi0wMTIz⟦⟧",
    "⟦service_token⟧dckr_pat_0123456789abcdefghijkl⟦⟧",
    "⟦service_token⟧lin_api_0123456789abcdefghijABCDEFGHIJ0123⟦⟧",
];

const SERVICES: &[&str] = &[
    "⟦slack_token⟧xo¦xb-123456789012-123456789012-abcdefghijklmnopqrstuvwx⟦⟧",
    "⟦slack_token⟧xo¦xp-123456789012-abcdef⟦⟧",
    "⟦slack_token⟧xa¦pp-1-A0123456789-0123456789-abcdef⟦⟧",
    "https://hooks.slack.com/⟦slack_token⟧serv¦ices/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX⟦⟧",
    "⟦stripe_key⟧sk¦_live_0123456789abcdefghijABCD⟦⟧",
    "⟦stripe_key⟧rk¦_live_0123456789abcdefghijABCD⟦⟧",
    "⟦stripe_key⟧sk¦_test_0123456789abcdefghijABCD⟦⟧",
    "⟦stripe_key⟧wh¦sec_0123456789abcdefghijABCDEF⟦⟧",
    "⟦service_token⟧S¦G.0123456789abcdefghijkl.0123456789abcdefghijABCDEFGHIJ0123456789abc⟦⟧",
    "⟦service_token⟧shp¦at_0123456789abcdef0123456789abcdef⟦⟧",
    "https://api.telegram.org/bot⟦service_token⟧1234567890:AAF¦0123456789abcdefghijABCDEFGHIJ01⟦⟧/getMe",
    "⟦openai_key⟧sk¦-0123456789abcdefghijABCDEFGHIJ0123456789abcdefgh⟦⟧",
    "⟦openai_key⟧sk¦-proj-abc_DEF-0123456789abcdefghijABCDEFGHIJ⟦⟧",
    "⟦openai_key⟧sk¦-svcacct-0123456789abcdefghijABCDEFGHIJ⟦⟧",
    "key: ⟦openai_key⟧sk¦-abcdefghijklmnopqrstUVWXYZabcdef⟦⟧",
    "OPENAI_API_KEY=⟦openai_key⟧sk¦-0123456789abcdefghijABCDEFGHIJ⟦⟧ python x.py",
    "⟦anthropic_key⟧sk¦-ant-api03-0123456789abcdefghij-ABCDEFGHIJ_0123456789-AA⟦⟧",
    "⟦openai_key⟧sk¦-or-v1-0123456789abcdef0123456789abcdef⟦⟧",
    "⟦huggingface_token⟧h¦f_abcdefghijklmnopqrstuvwxyzABCDEFGH⟦⟧",
    "(⟦huggingface_token⟧api¦_org_abcdefghijklmnopqrstuvwxyzABCDEFGH⟦⟧)",
    r"line\n⟦npm_token⟧np¦m_0123456789abcdefghijABCDEFGHIJ012345⟦⟧\n",
    r"line\t⟦openai_key⟧sk¦-0123456789abcdefghijABCDEFGHIJ⟦⟧",
    r"line\n--password ⟦assignment⟧hunter2⟦⟧",
    "⟦model_provider_key⟧gs¦k_0123456789abcdefghijABCDEFGHIJ0123456789abcdef⟦⟧",
    "⟦model_provider_key⟧xa¦i-0123456789abcdefghijABCDEFGHIJ0123456789abcdef⟦⟧",
    "⟦model_provider_key⟧r8¦_0123456789abcdefghijABCDEFGHIJ01234⟦⟧",
];

const HEADERS_AND_URLS: &[&str] = &[
    "⟦jwt⟧ey¦JhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U⟦⟧",
    "t=⟦jwt⟧ey¦JhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.⟦⟧",
    "⟦jwt⟧ey¦JhbGciOiJSU0EtT0FFUCJ9.abc_.def-.ghi.jkl⟦⟧ end",
    "Authorization: Bearer ⟦authorization⟧abcdef⟦⟧",
    "authorization: bearer ⟦authorization⟧0123456789abcdefghij⟦⟧",
    "Authorization: Basic ⟦authorization⟧dXNlcjpwYXNz⟦⟧\r\nHost: x",
    "Authorization: token ⟦authorization⟧abc123⟦⟧",
    "Proxy-Authorization: Basic ⟦authorization⟧dXNlcjpwYXNz⟦⟧",
    "curl -H 'Authorization: Bearer ⟦authorization⟧abc123⟦⟧' https://x",
    "{\"Authorization\": \"Bearer ⟦authorization⟧abc123⟦⟧\"}",
    "{\\\"authorization\\\":\\\"Bearer ⟦authorization⟧abc123⟦⟧\\\"}",
    "[\"Authorization\", \"Bearer ⟦authorization⟧abc123⟦⟧\"]",
    "Authorization: ⟦authorization⟧AWS4-HMAC-SHA256 Credential=x/y, SignedHeaders=host, Signature=fe5f80⟦⟧\nnext",
    "Authorization: ⟦authorization⟧Digest username=a, response=b⟦⟧",
    "headers['Authorization'] = 'Bearer ⟦authorization⟧abc123⟦⟧'",
    "Bearer ⟦bearer_token⟧0123456789abcdefghij⟦⟧",
    "Bearer: ⟦bearer_token⟧abcdefghijklmnopQRSTUV⟦⟧",
    "https://⟦url_credentials⟧user:password⟦⟧@host",
    "postgres://⟦url_credentials⟧app:s3cr3t⟦⟧@db.internal:5432/app?sslmode=require",
    "redis://⟦url_credentials⟧:hunter2⟦⟧@127.0.0.1:6379/0",
    "mongodb+srv://⟦url_credentials⟧u:p%40ss⟦⟧@cluster.example/db",
    "ftp://⟦url_credentials⟧anonymous:me@x⟦⟧@ftp.example/a",
    "git clone https://⟦url_credentials⟧0123456789abcdef0123⟦⟧@github.com/a/b",
    "\"amqp://⟦url_credentials⟧guest:guest⟦⟧@localhost\"",
    "Cookie: ⟦cookie⟧sid=abcdef; theme=dark⟦⟧\nHost: x",
    "Set-Cookie: ⟦cookie⟧sid=abcdef; HttpOnly⟦⟧",
];

const ASSIGNMENTS: &[&str] = &[
    "password=⟦assignment⟧hunter2⟦⟧",
    "password: ⟦assignment⟧hunter2⟦⟧",
    "PASSWORD = ⟦assignment⟧hunter2⟦⟧",
    "password := ⟦assignment⟧hunter2⟦⟧",
    "db.password=⟦assignment⟧correcthorse⟦⟧",
    "DB_PASSWORD='⟦assignment⟧it is a long one⟦⟧'",
    "{\"password\":\"⟦assignment⟧hun\\\"ter2⟦⟧\"}",
    "{\"user\": \"ada\", \"passwd\": \"⟦assignment⟧x⟦⟧\"}",
    "{\\\"password\\\":\\\"⟦assignment⟧hunter2⟦⟧\\\",\\\"a\\\":1}",
    "{'passphrase': '⟦assignment⟧open sesame⟦⟧'}",
    "passphrase: `⟦assignment⟧open sesame⟦⟧`",
    "user=ada&password=⟦assignment⟧hunter2⟦⟧&x=1",
    "Server=x;User Id=sa;Password=⟦assignment⟧P@ssw0rd⟦⟧;",
    "pwd=⟦assignment⟧P@ssw0rd⟦⟧",
    "--password ⟦assignment⟧hunter2⟦⟧ --host x",
    "--password=⟦assignment⟧hunter2⟦⟧ --host x",
    "mysql --password \"⟦assignment⟧hunter2⟦⟧\"",
    "tool --api-key ⟦assignment⟧abc⟦⟧",
    "tool -token ⟦assignment⟧abcdef1⟦⟧",
    "api_key=⟦assignment⟧abc⟦⟧",
    "apiKey: \"⟦assignment⟧abc⟦⟧\"",
    "X-Api-Key: ⟦assignment⟧0123abcd⟦⟧",
    "client_secret=⟦assignment⟧0123abcd⟦⟧",
    "\"clientSecret\" : \"⟦assignment⟧0123abcd⟦⟧\"",
    "secret = ⟦assignment⟧abcd⟦⟧",
    "private_key: ⟦assignment⟧abcdef⟦⟧",
    "SIGNING_KEY=⟦assignment⟧abcdef⟦⟧",
    "access_key => '⟦assignment⟧abcdef⟦⟧'",
    "credentials=⟦assignment⟧abcdef⟦⟧",
    "token=⟦assignment⟧0123456789⟦⟧",
    "access_token=⟦assignment⟧abcdefghijklmnopqrst⟦⟧",
    "\"token\": \"⟦assignment⟧abc⟦⟧\"",
    "refreshToken: '⟦assignment⟧abc⟦⟧'",
    "X-Auth-Token: ⟦assignment⟧abcdef012345⟦⟧",
    "token: Bearer ⟦assignment⟧abcdef012345⟦⟧",
    "csrf_token=⟦assignment⟧x1y2z3a4⟦⟧; path=/",
    "password=⟦assignment⟧a⟦⟧ secret=⟦assignment⟧b⟦⟧ api_key=⟦assignment⟧c⟦⟧",
    "password=\"⟦assignment⟧unterminated and long⟦⟧",
    "tokens: \"⟦assignment⟧abcdefghijklmnopqrst⟦⟧\"",
    "password=⟦assignment⟧[redacted:x]hunter2⟦⟧",
];

const PEM_BLOCKS: &[&str] = &[
    "⟦private_key⟧-----BEGIN¦ RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----⟦⟧\n",
    "⟦private_key⟧-----BEGIN¦ PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----⟦⟧ and text",
    "a⟦private_key⟧-----BEGIN¦ OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----⟦⟧b",
    "⟦private_key⟧-----BEGIN¦ EC PRIVATE KEY-----\\nMHcCAQEE\\n-----END EC PRIVATE KEY-----⟦⟧",
    "⟦private_key⟧-----BEGIN¦ ENCRYPTED PRIVATE KEY-----\nMIIFHz⟦⟧",
    "⟦private_key⟧-----BEGIN¦ PGP PRIVATE KEY BLOCK-----\n\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----⟦⟧",
    "⟦private_key⟧-----BEGIN¦ PRIVATE KEY-----\nA\n-----END PRIVATE KEY-----⟦⟧\n⟦private_key⟧-----BEGIN¦ PRIVATE KEY-----\nB\n-----END PRIVATE KEY-----⟦⟧",
    "⟦private_key⟧AGE-SECRET¦-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ⟦⟧",
    "PuTTY-User-Key-File-3: ssh-ed25519\n⟦private_key⟧Private-Lines: 1\nAAAAIGV4YW1wbGU=\n⟦⟧",
];

const HARMLESS: &[&str] = &[
    "",
    "hello, world",
    "The quick brown fox jumps over the lazy dog.",
    "/home/ada/projects/sinew/crates/telemetry/src/redact.rs",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjAN\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIDdz\n-----END CERTIFICATE-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGV4YW1wbGU ada@host",
    "AKIA is the prefix of an access key id",
    "the ASIA region",
    "AKIAIOSFODNN7",
    "commit da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "aws s3 cp da39a3ee5e6b4b0d3255bfef95601890afd80709 s3://bucket/key",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "0192f1c8-7b1c-7c2e-9b1a-3f0e4d5c6b7a",
    "ghp_ is how the tokens begin",
    "ghp_short",
    "github_pat_tooshort",
    "glpat-short",
    "xoxb-",
    "sk-learn",
    "sk-learn-contrib-hyperparameter-search",
    "the sk-SK locale and a-sk-b",
    "task-0123456789abcdef0123456789abcdef",
    "risk-assessment-2024-q4-final-version-for-review",
    "disk-usage: 80%",
    "sk_live",
    "self_test_live_ok",
    "AIzaTooShort",
    "half_done and shelf_life",
    "npm_config_registry=https://registry.example/",
    "npm_lifecycle_event",
    "pypi-server",
    "https://pypi.org/project/pypi-attestations/",
    "eyJ",
    "eyJhbGciOi",
    "Authorization is required",
    "authorization, authentication and accounting",
    "authorization_endpoint",
    "the bearer of this letter",
    "Bearer tokens are described in RFC 6750",
    "bearer authentication-is-described-elsewhere",
    "https://example.org/",
    "http://localhost:8080/path?x=1",
    "https://example.org:8443/a@b",
    "ssh://git@github.com/a/b.git",
    "git@github.com:a/b.git",
    "https://ada@example.org/",
    "mailto:ada@example.org",
    "ada@example.org",
    "see https://example.org/#/user:name",
    "cookie policy",
    "accept cookies: yes",
    "max_tokens: 4096",
    "max_tokens=128000",
    "\"total_tokens\": 12345678",
    "prompt_tokens: 12, completion_tokens: 34",
    "token_count=123456",
    "token_type: Bearer",
    "\"token_type\":\"bearer\"",
    "tokenizer: cl100k_base_0123456789",
    "unexpected token: `}`",
    "Unexpected token: expected an identifier",
    "let token = lexer.next();",
    "token: 5",
    "the next token is: word",
    "password",
    "password:",
    "password: null",
    "password = None",
    "\"password\": \"\"",
    "\"password\": true",
    "password: string",
    "passwordless: yes1234567",
    "forgot your password? click here",
    "password:\n  other: value",
    "secret_patterns: [a, b]",
    "the secret of success",
    "api_key: null",
    "api_key_required: true",
    "keyboard=qwerty",
    "monkey: banana",
    "private_keys_allowed: false",
    "--token",
    "--password-file",
    "--no-password --host x",
    "bottom: 12px",
    "both 1234567890:abc",
    "SG.short.short",
    "[redacted:github_token]",
    "password=[redacted:assignment]",
    "\"token\": \"[redacted:sensitive_key]\"",
    "Authorization: Bearer [redacted:authorization]",
    "https://[redacted:url_credentials]@host/",
    "{\"tool\":\"read_file\",\"path\":\"/tmp/a\",\"max_bytes\":1048576}",
    "tool_call_started tool=read_file latency_ms=1.25",
    "データ: 値",
    "naïve café — “quotes”",
    "\u{1b}[31mred\u{1b}[0m",
    "x-request-id: 0192f1c87b1c7c2e9b1a3f0e4d5c6b7a",
    "sig=short",
    "Q~",
    "1//0",
    "ya29.",
    "whsec_",
    "xai-chatbot",
    "r8_driver",
];

fn parse(sample: &str) -> (String, String) {
    let (mut text, mut expected) = (String::new(), String::new());
    let mut rest = sample.replace('¦', "");
    while let Some((before, after)) = rest.clone().split_once('⟦') {
        let (name, after) = after.split_once('⟧').unwrap();
        let (secret, after) = after.split_once("⟦⟧").unwrap();
        text.extend([before, secret]);
        expected.push_str(&format!("{before}[redacted:{name}]"));
        rest = after.to_owned();
    }
    (text + &rest, expected + &rest)
}

#[test]
fn every_sample_is_judged_as_marked() {
    let redactor = Redactor::built_in();
    let groups = [CLOUD, FORGES, SERVICES, HEADERS_AND_URLS, ASSIGNMENTS, PEM_BLOCKS, HARMLESS];
    assert!(groups.iter().map(|group| group.len()).sum::<usize>() >= 200);
    let mut wrong = Vec::new();
    for sample in groups.into_iter().flatten() {
        let (text, expected) = parse(sample);
        let found = redactor.redact_text(&text);
        if found != expected {
            wrong.push(format!("{text:?}\n  wanted {expected:?}\n  got    {found:?}"));
        }
        assert_eq!(redactor.redact_text(&found), found, "twice must be as once: {text:?}");
    }
    assert!(wrong.is_empty(), "{} samples:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_built_in_compiles_and_has_a_sample() {
    assert!(BUILT.gate.is_some());
    let samples = [CLOUD, FORGES, SERVICES, HEADERS_AND_URLS, ASSIGNMENTS, PEM_BLOCKS].concat().concat();
    for (row, pattern) in BUILT_IN.iter().zip(&BUILT.patterns) {
        assert!(pattern.is_some(), "{} does not compile", row.name);
        assert!(samples.contains(&format!("⟦{}⟧", row.name)), "{} has no sample", row.name);
    }
}

#[test]
fn clean_text_is_borrowed() {
    let redactor = Redactor::built_in();
    assert!(matches!(redactor.redact_text("nothing to see"), Cow::Borrowed(_)));
}

#[test]
fn patterns_of_the_configuration() {
    let pattern = |name: &str, pattern: &str, action| SecretPattern {
        name: name.to_owned(),
        pattern: pattern.to_owned(),
        action,
    };
    let redactor = Redactor::new(vec![
        pattern("badge", r"B-\d{4}", Action::Redact),
        pattern("e_mail", r"[a-z]+@[a-z.]+", Action::Warn),
        pattern("launch_code", "(?i)launch-[0-9a-f]+", Action::Block),
    ])
    .unwrap();
    assert_eq!(
        redactor.redact_text("B-1234 a@b.c LAUNCH-ff"),
        "[redacted:badge] a@b.c [redacted:launch_code]"
    );
    assert_eq!(redactor.blocked("x launch-0a"), Some("launch_code"));
    assert_eq!(redactor.blocked("B-1234 a@b.c"), None);
    assert_eq!(redactor.warned("a@b.c"), Some("e_mail"));
    assert_eq!(redactor.warned("B-1234"), None);
    for (name, text, says) in [
        ("Bad Name", "x", "a-z, 0-9 and _"),
        ("", "x", "a-z, 0-9 and _"),
        ("open", "(", "unclosed group"),
        ("empty", "x*", "empty text"),
        ("huge", "(?:a{500}){500}", "size limit"),
        ("look", "(?<=a)b", "look-around"),
    ] {
        let error = Redactor::new(vec![pattern(name, text, Action::Redact)]).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains(&format!("`{name}`")), "{error}");
    }
}

#[test]
fn json_is_redacted_by_name_and_by_shape() {
    let redactor = Redactor::built_in();
    let marker = "[redacted:sensitive_key]";
    let check =
        |given: Value, expected: Value| assert_eq!(redactor.redact_value(&given), expected, "{given}");
    check(json!({"password": "x", "user": "ada"}), json!({"password": marker, "user": "ada"}));
    check(json!({"Api-Key": 12345, "max_tokens": 4096}), json!({"Api-Key": marker, "max_tokens": 4096}));
    check(
        json!({"credentials": {"user": "ada", "pin": 1234, "on": true, "list": ["a", null]}}),
        json!({"credentials": {"user": marker, "pin": marker, "on": true, "list": [marker, null]}}),
    );
    check(
        json!({"headers": [{"name": "Authorization", "value": "x"}, {"name": "Accept", "value": "*/*"}]}),
        json!({"headers": [{"name": "Authorization", "value": marker}, {"name": "Accept", "value": "*/*"}]}),
    );
    check(
        json!({"env": [["DB_PASSWORD", "x"], ["HOME", "/"]]}),
        json!({"env": [["DB_PASSWORD", marker], ["HOME", "/"]]}),
    );
    check(
        json!({"argv": ["psql", "--password", "x", "--host", "y"]}),
        json!({"argv": ["psql", "--password", marker, "--host", "y"]}),
    );
    check(
        json!({"argv": ["psql", "--password=x"]}),
        json!({"argv": ["psql", "--password=[redacted:assignment]"]}),
    );
    check(json!({"password": "", "token": null}), json!({"password": "", "token": null}));
    check(json!({"token": 7, "token_pin": 123456}), json!({"token": 7, "token_pin": marker}));
    check(
        json!({"hf_abcdefghijklmnopqrstuvwxyzABCDEFGH": 1, "hf_abcdefghijklmnopqrstuvwxyzABCDEFGI": 2}),
        json!({"[redacted:huggingface_token]": 1, "[redacted:huggingface_token]#1": 2}),
    );
    check(json!([1, 1.5, true, null, "plain"]), json!([1, 1.5, true, null, "plain"]));
}

/// A small generator with a seed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn text(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A text with a secret in it, and the part that must be gone.
fn planted(random: &mut Random) -> (String, String) {
    let shape = random.below(21);
    let length = 36 + random.below(30);
    let body = random.text(ALNUM, length);
    let whole = |secret: String| (secret.clone(), secret);
    match shape {
        0 => whole(format!("gh{}_{body}", random.text("pousr", 1))),
        1 => whole(format!("github_pat_{body}")),
        2 => whole(format!("glpat-{}", &body[..20])),
        3 => whole(format!("xox{}-{body}", random.text("bpars", 1))),
        4 => whole(format!("sk_live_{body}")),
        5 => whole(format!("sk-{body}")),
        6 => whole(format!("sk-proj-{body}")),
        7 => whole(format!("sk-ant-api03-{body}")),
        8 => whole(format!("AIza{}", &body[..35])),
        9 => whole(format!("hf_{body}")),
        10 => whole(format!("npm_{body}")),
        11 => whole(format!("pypi-AgEIcHlwaS5vcmc{body}")),
        12 => whole(format!("AKIA{}", random.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16))),
        13 => whole(format!("eyJhbGciOiJIUzI1NiJ9.eyJ{body}.{body}")),
        14 => (format!("Authorization: Bearer {body}"), body),
        15 => (format!("https://ada:{body}@example.org/x"), body),
        16 => (format!("-----BEGIN PRIVATE KEY-----\n{body}\n{body}\n-----END PRIVATE KEY-----"), body),
        17 => (format!("export DB_PASSWORD='{body}' # do not tell"), body),
        18 => (format!("api_key={body}&x=1"), body),
        19 => (format!("AccountKey={body}{body}=="), body),
        _ => (json!({"client_secret": body, "note": "nested text"}).to_string(), body),
    }
}

/// Wraps a text in objects, arrays, keys and sentences.
fn nested(random: &mut Random, text: String, depth: usize) -> Value {
    let text = match random.below(4) {
        0 => format!("before {text} after"),
        1 => format!("\u{e9}\n{text}\n\u{2028}"),
        _ => text,
    };
    let mut value = match random.below(6) {
        0 => json!({ text: "as a key" }),
        1 => json!(json!({ "inner": text }).to_string()),
        _ => json!(text),
    };
    for _ in 0..depth {
        value = match random.below(3) {
            0 => json!({"list": [1, value, "x"], "n": 1}),
            1 => json!({"a": {"b": value}}),
            _ => json!([value, {"plain": "text"}]),
        };
    }
    value
}

#[test]
fn of_a_thousand_planted_secrets_none_survives() {
    let redactor = Redactor::built_in();
    for seed in 1..=1000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (text, secret) = planted(&mut random);
        let depth = random.below(6);
        let value = nested(&mut random, text, depth);
        assert!(value.to_string().contains(&secret), "the test must plant it: {value}");
        let clean = redactor.redact_value(&value);
        assert!(!clean.to_string().contains(&secret), "seed {seed}: {secret} survives in {clean}");
        assert_eq!(redactor.redact_value(&clean), clean, "seed {seed}: twice must be as once");
    }
}

#[test]
fn hostile_text_costs_linear_time() {
    let redactor = Redactor::built_in();
    for unit in [
        "token=",
        "eyJ",
        "://",
        "password=\\\"",
        "-----BEGIN PRIVATE KEY-----",
        "a@",
        "sk-",
        "cookie:",
        "tokens=1 ",
    ] {
        let text = unit.repeat(200_000 / unit.len());
        let started = std::time::Instant::now();
        let _ = redactor.redact_text(&text);
        // Quadratic time would be minutes; an unoptimised build of the linear one stays far below.
        assert!(started.elapsed().as_secs() < 10, "{unit:?} took {:?}", started.elapsed());
    }
}

/// Prints what redaction costs; run with `--run-ignored all --release` to see it.
#[test]
#[ignore = "a measurement"]
fn cost_of_clean_text() {
    let redactor = Redactor::built_in();
    let prose =
        "The call read_file on /home/ada/projects/notes/today.md took 12 ms and returned 4096 bytes. "
            .repeat(12);
    let clean = &prose[..1024];
    let short = "tool=read_file path=/tmp/a latency_ms=12";
    for (name, text) in [("1 KiB", clean), ("40 bytes", short)] {
        let started = std::time::Instant::now();
        let rounds = 100_000;
        for _ in 0..rounds {
            assert!(matches!(redactor.redact_text(std::hint::black_box(text)), Cow::Borrowed(_)));
        }
        println!("{name}: {:?} a text", started.elapsed() / rounds);
    }
}
