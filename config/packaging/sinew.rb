# Homebrew formula, written by `cargo xtask dist`.
class Sinew < Formula
  desc "Tool runtime for a local AI agent: policy, approvals, sandbox and ledger"
  homepage "@HOMEPAGE@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  #@ARCHIVES@

  def install
    bin.install "bin/sinew"
    bash_completion.install "share/bash-completion/completions/sinew"
    zsh_completion.install "share/zsh/site-functions/_sinew"
    fish_completion.install "share/fish/vendor_completions.d/sinew.fish"
    man1.install Dir["share/man/man1/*"]
    doc.install Dir["share/doc/sinew/*"]
    pkgshare.install Dir["share/sinew/*"]
  end

  # `sinew service install` offers socket activation, which a formula cannot express.
  service do
    run [opt_bin/"sinew", "serve"]
    keep_alive successful_exit: false
    process_type :interactive
    environment_variables PATH: std_service_path_env
  end

  def caveats
    <<~TEXT
      After an upgrade, run `sinew restart`. Before `brew uninstall sinew`, run `sinew uninstall`: it removes the
      hooks, without which the hosts of your agents would block their calls.
    TEXT
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/sinew --version")
    system bin/"sinew", "demo"
  end
end
