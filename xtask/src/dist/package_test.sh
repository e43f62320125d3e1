# Installs, uses, upgrades and removes the Debian package in a root file system of its own. Run as root inside of it, by
# `cargo xtask package-test`. Arguments: the package, and a newer one.
set -eu
package=$1
newer=$2
user=person
as_user() {
  runuser -u "$user" -- env -i HOME=/home/$user USER=$user LOGNAME=$user PATH=/usr/bin:/bin LANG=C.UTF-8 \
    XDG_RUNTIME_DIR=/run/user/1000 NO_COLOR=1 "$@"
}
step() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# Prints every file with its mode, owner and content. What dpkg keeps for itself is left out.
files() {
  cd /
  find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./run \
    -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./etc/.pwd.lock \) -prune \
    -o -type f -printf '%p %m %u:%g ' -exec sha256sum {} \; \
    -o -type l -printf '%p -> %l\n' -o -printf '%p/ %m %u:%g\n' | sort
}

mkdir -p /run/user/1000
chown 1000:1000 /run/user/1000
chmod 700 /run/user/1000
files >/tmp/before

step "dpkg --install $(basename "$package")"
dpkg --install "$package"
as_user sinew --version
test ! -e /home/$user/.config || fail 'the package wrote to the home folder of a user'

step 'sinew demo'
as_user sinew demo >/tmp/demo 2>&1 || { cat /tmp/demo; fail 'sinew demo'; }
tail -n 3 /tmp/demo

step 'configuration, workspace, hooks'
as_user mkdir /home/$user/work
as_user sh -c 'echo content > /home/person/work/a.txt'
as_user sinew init
as_user sinew workspace add /home/$user/work
as_user sinew hook install claude-code

step 'sinew service install, without a service manager'
as_user systemctl --user show-environment >/tmp/manager 2>&1 && fail 'a service manager runs here'
if as_user sinew service install >/tmp/service 2>&1; then fail 'service install succeeded without a manager'; fi
cat /tmp/service
test ! -e /home/$user/.config/systemd || fail 'service install left files behind'

start_manager() {
  # A user manager needs a control group that belongs to the user.
  group=/sys/fs/cgroup/unified/sinew-package-test
  test -d /sys/fs/cgroup/unified || group=/sys/fs/cgroup/sinew-package-test
  mkdir -p /run/systemd/system "$group" || return 1
  chown -R 1000:1000 "$group"
  (
    sh -c "echo \$\$ > $group/cgroup.procs; exec runuser -u $user -- env -i HOME=/home/$user USER=$user \
      PATH=/usr/bin:/bin XDG_RUNTIME_DIR=/run/user/1000 /lib/systemd/systemd --user" >/tmp/systemd 2>&1 &
  )
  for _ in $(seq 100); do
    as_user systemctl --user show-environment >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  return 1
}
step 'service'
if start_manager; then
  as_user sinew service install
  as_user sinew wait --timeout 30
  as_user sinew service status | head -n 3
else
  echo 'LEFT OUT: no user manager of systemd can run here; the daemon is started by `sinew serve`'
  tail -n 3 /tmp/systemd 2>/dev/null || true
  as_user sinew serve >/tmp/serve 2>&1 &
  as_user sinew wait --timeout 30
fi
as_user sinew status | head -n 3

step 'upgrade under load'
touch /tmp/load
# One connection a call.
for number in 1 2; do
  (
    calls=0
    while [ -e /tmp/load ]; do
      as_user sh -c 'cd /home/person/work && sinew call read_file path=a.txt' >/tmp/call.$number 2>&1 || {
        # A limit of the policy is no lost call.
        grep -q rate_limited /tmp/call.$number || {
          cat /tmp/call.$number >&2
          echo lost >>/tmp/lost
        }
      }
      # Below the limit of calls in a minute.
      sleep 0.1
      calls=$((calls + 1))
      echo "$calls" >/tmp/calls.$number
    done
  ) &
done
# One connection for all calls, as the host of an agent has it.
as_user python3 - >/tmp/bridge 2>&1 <<'PYTHON' &
import json, os, subprocess, sys, time
bridge = subprocess.Popen(["sinew", "mcp", "--no-start"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def send(message):
    bridge.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    bridge.stdin.flush()
def receive():
    return json.loads(bridge.stdout.readline())
send({"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {},
      "clientInfo": {"name": "load"}}})
receive()
send({"method": "notifications/initialized"})
calls = lost = 0
while os.path.exists("/tmp/load"):
    calls += 1
    time.sleep(0.05)
    path = f"/home/person/work/out-{calls}.txt"
    arguments = {"path": path, "content": "x"}
    send({"id": calls, "method": "tools/call", "params": {"name": "write_file", "arguments": arguments}})
    reply = receive()
    if "error" in reply or reply["result"].get("isError"):
        # A limit of the policy is no lost call.
        if "rate_limited" not in json.dumps(reply):
            lost += 1
            print(reply, file=sys.stderr)
print(calls, lost)
PYTHON
bridge=$!
old=$(as_user sinew status --json | python3 -c 'import json,sys; status=json.load(sys.stdin); print(status["version"], status["pid"])')
for round in 1 2 3; do
  sleep 1
  if [ "$round" = 2 ]; then dpkg --install "$package"; else dpkg --install "$newer"; fi
  as_user sinew restart
done
new=$(as_user sinew status --json | python3 -c 'import json,sys; status=json.load(sys.stdin); print(status["version"], status["pid"])')
sleep 1
rm /tmp/load
wait "$bridge" || { cat /tmp/bridge; fail 'the bridge'; }
sleep 2
echo "daemon before: $old; after: $new"
echo "calls with a connection each: $(cat /tmp/calls.1) and $(cat /tmp/calls.2); over one connection, and lost: $(tail -n 1 /tmp/bridge)"
[ "${old#* }" = "${new#* }" ] || fail 'the process id changed'
cmp /proc/"${new#* }"/exe /usr/bin/sinew || fail 'the daemon does not run the installed program'
test ! -e /tmp/lost || fail 'calls of commands were lost'
case $(tail -n 1 /tmp/bridge) in *' 0') ;; *) cat /tmp/bridge; fail 'calls of the bridge were lost' ;; esac
as_user sinew ledger verify | tail -n 1

step 'sinew uninstall'
as_user sinew uninstall --dry-run
if as_user sinew uninstall </dev/null >/tmp/uninstall 2>&1; then fail 'uninstall did not ask'; fi
as_user sinew uninstall --yes
test -e /home/$user/.config/sinew/sinew.yaml || fail 'the configuration was removed without --purge'
test -d /home/$user/.local/state/sinew/ledger || fail 'the ledger was removed without --purge'
test ! -e /home/$user/.claude/settings.json || fail 'the hooks are left'
as_user sinew uninstall --purge --yes
dpkg --purge sinew
rm -r /home/$user/work

step 'files before and after'
files >/tmp/after
if diff /tmp/before /tmp/after; then
  echo "identical: $(wc -l </tmp/before) files, folders and links"
else
  fail 'the file system is not as it was before'
fi
