//! Secrets stay secret, whatever a template makes of them.

use serde_json::json;

use super::template_tests::load;

// Password `pw`; the text is `sekrit`.
const VAULT: &str = "!vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  36653135383762373137633061336630666463646664396163383437323161326131383831343661\n  3264316264366465653833646637363236346235623034610a336662333436306532313865303039\n  38663639306238646562386336653535643136303261376534343462363237663539353335343738\n  3832386435303436370a663065636331356535633833356233396237663436393537373737323337\n  6266\n";

#[test]
fn secrets_stay_secret_through_templates() {
    let vars = format!(
        "v: {VAULT}\nmixed: 'user:{{{{ v }}}}'\nuser: {{name: bob, pass: '{{{{ v }}}}'}}\nname: '{{{{ user.name }}}}'\nwhole: '{{{{ user }}}}'\ncode: '{{{{ v | b64encode }}}}'\njson: '{{{{ user | to_json }}}}'\ncond: \"{{{{ 'x' if v == 'sekrit' else 'y' }}}}\"\nu: !unsafe '{{{{ v }}}}'\n"
    );
    let (_dir, loaded) = load(&[("hosts.ini", "h\n"), ("group_vars/all.yml", &vars), ("pw", "pw\n")]);
    let inventory = loaded.unwrap().inventory;
    let scope = inventory.scope("h");
    let get = |name: &str| scope.get(name).unwrap().unwrap();
    assert_eq!((get("v").as_str(), get("v").secret), (Some("sekrit"), true));
    assert_eq!(
        (get("mixed").as_str(), get("mixed").secret),
        (Some("user:sekrit"), true)
    );
    assert_eq!(get("user").to_json_masked(), json!({"name": "bob", "pass": "***"}));
    assert_eq!(get("whole").to_json_masked(), json!({"name": "bob", "pass": "***"}));
    assert_eq!((get("name").as_str(), get("name").secret), (Some("bob"), false));
    for name in ["code", "json", "cond"] {
        assert!(get(name).secret, "{name}");
    }
    assert_eq!((get("u").as_str(), get("u").secret), (Some("{{ v }}"), false));
    assert_eq!(inventory.host_json("h", true)["v"], json!("***"));
    // The same inventory without the password: only the users of the secret fail.
    let (_dir, loaded) = load(&[("hosts.ini", "h\n"), ("group_vars/all.yml", &vars)]);
    let inventory = loaded.unwrap().inventory;
    let scope = inventory.scope("h");
    assert_eq!(scope.get("name").unwrap().unwrap().as_str(), Some("bob"));
    let fault = scope.get("mixed").unwrap_err();
    assert_eq!(fault.code, "inventory/vault-no-password");
    assert_eq!(fault.place.unwrap().line, 2);
}
